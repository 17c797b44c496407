// Records what the GPUs of a job run during one training step: as tables how much of the collectives overlaps the model, and the
// time of each kernel of rank 0; as a file a trace for https://ui.perfetto.dev. CUPTI records every kernel of a short run, which
// needs its header and library (timeline/build.ts finds them) and makes steps somewhat longer: bench-ranks.ts measures them.
//   node --import tsx scripts/timeline.ts [--gpus 2] [--model d12] [--batch 8] [--dtype bf16] [--overlap auto] [--steps 40]
//     [--data data/tinyshakespeare] [--out build/timeline]
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { presetConfig, presetNames } from '../src/model/config.ts';
import { packageRoot } from '../src/package-root.ts';
import { formatTable } from '../src/report/table.ts';
import { readFlags } from './flags.ts';
import { buildRecorder } from './timeline/build.ts';
import { parseTimelines, stepsOf, summarize, timesByKernel, typicalStep, within } from './timeline/steps.ts';
import { chromeTrace } from './timeline/trace.ts';

const flags = readFlags({
  ...{ gpus: 2, model: 'd12', batch: 8, dtype: 'bf16', overlap: 'auto', steps: 40, data: 'data/tinyshakespeare' },
  out: 'build/timeline',
});
/** A run that hangs is ended after this many milliseconds. */
const longestRun = 300_000;
const out = resolve(flags.out);
const files = Array.from({ length: flags.gpus }, (_, rank) => join(out, `rank-${rank}.tsv`));

/** Trains with the recorder in every process that opens CUDA. */
function record(recorder: string): void {
  const run = mkdtempSync(join(tmpdir(), 'gpt2-timeline-'));
  for (const file of files) rmSync(file, { force: true });
  try {
    const { status, stderr, error } = spawnSync(
      process.execPath,
      [
        ...['--import', 'tsx', 'src/cli.ts', 'train', '--device', 'cuda', '--gpus', `${flags.gpus}`],
        ...['--overlap', flags.overlap, '--model', flags.model, '--batch', `${flags.batch}`, '--seq', '1024'],
        ...['--dtype', flags.dtype],
        ...['--steps', `${flags.steps}`],
        ...['--data', flags.data, '--order', 'sequence', '--val-every', '0', '--sample-every', '0', '--out', run],
      ],
      {
        cwd: packageRoot,
        encoding: 'utf8',
        maxBuffer: 1 << 28,
        timeout: longestRun,
        env: { ...process.env, CUDA_INJECTION64_PATH: recorder, GPT2_TIMELINE: out },
      },
    );
    if (status !== 0) throw error ?? new Error(stderr);
  } finally {
    rmSync(run, { recursive: true, force: true });
  }
}

function describe({ kinds, collectives, idle }: ReturnType<typeof summarize>): string {
  const row = (name: string, times: { count: number; ms: number; besideOurs: number; alone: number }) => [
    ...[name, String(times.count), times.ms.toFixed(3)],
    ...[times.besideOurs.toFixed(3), times.alone.toFixed(3)],
  ];
  const table = formatTable([
    ['', 'kernels', 'ms', 'overlapping ours', 'alone'],
    ...kinds.map(({ kind, ...times }) => row(kind, times)),
    ['nothing', '', idle.toFixed(3), '', ''],
  ]);
  if (collectives.count === 0) return table;
  const share = (100 * collectives.besideOurs) / collectives.ms;
  return `${table}\ncollectives: ${collectives.ms.toFixed(3)} ms, ${share.toFixed(1)}% of it overlapping our kernels`;
}

const describeKernels = (rows: ReturnType<typeof timesByKernel>): string =>
  formatTable([
    ['', 'calls', 'ms', 'gaps before, ms'],
    ...rows.map(({ name, count, ms, gap }) => [name, String(count), ms.toFixed(3), gap.toFixed(3)]),
  ]);

const layers = presetConfig(flags.model)?.layers;
if (!layers) throw new Error(`--model ${flags.model} is no size: use ${presetNames.join(', ')}`);
record(buildRecorder(out));
const missing = files.filter((file) => !existsSync(file));
if (missing.length > 0) throw new Error(`the run ended, but nothing wrote ${missing.join(', ')}`);
const timelines = parseTimelines(files.map((file) => readFileSync(file, 'utf8')));
for (const [rank, { notes }] of timelines.entries()) for (const note of notes) console.log(`rank ${rank}: ${note}`);

// All ranks take the same steps, so the same index is the same step.
const steps = timelines.map(({ kernels }) => stepsOf(kernels));
const chosen = typicalStep(steps[0]!);
const ranks = timelines.map(({ kernels }, rank) => {
  const step = steps[rank]![chosen];
  if (!step) throw new Error(`rank ${rank} has ${steps[rank]!.length} whole steps, rank 0 has ${steps[0]!.length}`);
  return { step, kernels: within(kernels, step) };
});
for (const [rank, { kernels, step }] of ranks.entries()) {
  const times = summarize(kernels, step);
  console.log(`rank ${rank}, step ${chosen + 1} of ${flags.steps}: ${times.ms.toFixed(3)} ms\n${describe(times)}\n`);
  if (rank === 0) console.log(`${describeKernels(timesByKernel(kernels, step, layers))}\n`);
}
const trace = join(out, 'step.json');
writeFileSync(trace, chromeTrace(ranks));
console.log(`${trace} (open it at https://ui.perfetto.dev)`);
