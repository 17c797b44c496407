// Tokens per second of each GPU alone and of all together, and how near together they come to as many times the slowest, which
// sets the pace of all. Runs alternate, each a process of its own, on the data at hand. Median of the steps behind the first
// ten; a batch below 64 takes as many more steps.
//   node --import tsx scripts/bench-ranks.ts [--gpus 2] [--model d12] [--batches 64,8] [--zero 1] [--rounds 2] [--steps 60]
//     [--data data/tinyshakespeare] [--out FILE.json]
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readRun } from '../src/runs/reader.ts';

const { values: flags } = parseArgs({
  options: {
    gpus: { type: 'string', default: '2' },
    model: { type: 'string', default: 'd12' },
    batches: { type: 'string', default: '64,8' },
    zero: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '2' },
    steps: { type: 'string', default: '60' },
    data: { type: 'string', default: 'data/tinyshakespeare' },
    out: { type: 'string' },
  },
});
const warmup = 10;
/** Milliseconds: what hangs is ended. */
const longestRun = 180_000;
const root = fileURLToPath(new URL('..', import.meta.url));

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

/** Milliseconds of a step on these GPUs, and what the run said of the way between ranks. */
function measure(gpus: readonly number[], batch: number): { ms: number; said: string } {
  const out = mkdtempSync(join(tmpdir(), 'gpt2-ranks-'));
  try {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [
        ...['--import', 'tsx', 'src/cli.ts', 'train', '--device', 'cuda', '--gpus', String(gpus.length)],
        ...['--zero', flags.zero, '--steps', String(Math.ceil(Number(flags.steps) * Math.max(1, 64 / batch)))],
        ...['--model', flags.model, '--batch', String(batch), '--seq', '1024'],
        ...['--data', flags.data, '--order', 'sequence', '--val-every', '0', '--sample-every', '0', '--out', out],
      ],
      {
        cwd: root,
        encoding: 'utf8',
        maxBuffer: 1 << 28,
        timeout: longestRun,
        env: { ...process.env, CUDA_VISIBLE_DEVICES: gpus.join() },
      },
    );
    if (status !== 0) throw new Error(stderr);
    const steps = readRun(out).events.flatMap((event) => (event.event === 'train' ? [event.ms] : []));
    return {
      ms: median(steps.slice(warmup)),
      said: stdout.split('\n').find((line) => line.includes('all-reduce')) ?? '',
    };
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

const all = Array.from({ length: Number(flags.gpus) }, (_, gpu) => gpu);
const results = flags.batches
  .split(',')
  .map(Number)
  .map((batch) => {
    const alone: number[][] = all.map(() => []);
    const together: number[] = [];
    let said = '';
    for (let round = 0; round < Number(flags.rounds); round++) {
      for (const gpu of all) alone[gpu]!.push(measure([gpu], batch).ms);
      const measured = measure(all, batch);
      together.push(measured.ms);
      said = measured.said || said;
    }
    console.log(`${flags.model} batch ${batch} a GPU, ZeRO ${flags.zero}: ${said}`);
    const tell = (who: string, times: readonly number[], gpus: number): number => {
      const tokens = (gpus * batch * 1024 * 1000) / Math.min(...times);
      const each = times.map((ms) => ms.toFixed(2)).join(', ');
      console.log(`  ${who}  ${Math.round(tokens).toLocaleString('en-US')} tokens/s   ${each} ms a step`);
      return tokens;
    };
    const slowest = Math.min(...alone.map((times, gpu) => tell(`GPU ${gpu}`, times, 1)));
    const efficiency = tell(`all ${all.length}`, together, all.length) / (all.length * slowest);
    console.log(`  efficiency ${(100 * efficiency).toFixed(1)}%`);
    return { model: flags.model, batch, zero: Number(flags.zero), alone, together, efficiency, said };
  });
if (flags.out) writeFileSync(flags.out, `${JSON.stringify(results, null, 2)}\n`);
