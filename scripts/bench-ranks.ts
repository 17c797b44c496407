// Tokens per second of one GPU and of several, and how near several come to as many times one. Runs alternate, each a process
// of its own, on the data at hand. Median of the steps behind the first ten.
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
const root = fileURLToPath(new URL('..', import.meta.url));

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

/** Milliseconds of a step, and what the run said of the way between ranks. */
function measure(gpus: number, batch: number): { ms: number; said: string } {
  const out = mkdtempSync(join(tmpdir(), 'gpt2-ranks-'));
  try {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [
        ...['--import', 'tsx', 'src/cli.ts', 'train', '--device', 'cuda', '--gpus', String(gpus), '--zero', flags.zero],
        ...['--model', flags.model, '--batch', String(batch), '--seq', '1024', '--steps', flags.steps],
        ...['--data', flags.data, '--order', 'sequence', '--val-every', '0', '--sample-every', '0', '--out', out],
      ],
      { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 },
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

const several = Number(flags.gpus);
const results = flags.batches
  .split(',')
  .map(Number)
  .map((batch) => {
    const times: Record<number, number[]> = { 1: [], [several]: [] };
    let said = '';
    for (let round = 0; round < Number(flags.rounds); round++) {
      for (const gpus of [1, several]) {
        const measured = measure(gpus, batch);
        times[gpus]!.push(measured.ms);
        said = measured.said || said;
      }
    }
    const tokens = (gpus: number) => (gpus * batch * 1024 * 1000) / Math.min(...times[gpus]!);
    const efficiency = tokens(several) / (several * tokens(1));
    console.log(`${flags.model} batch ${batch} a GPU, ZeRO ${flags.zero}: ${said}`);
    for (const gpus of [1, several]) {
      const each = times[gpus]!.map((ms) => ms.toFixed(2)).join(', ');
      console.log(
        `  ${gpus} GPU${gpus > 1 ? 's' : ' '}  ${Math.round(tokens(gpus)).toLocaleString('en-US')} tokens/s   ${each} ms a step`,
      );
    }
    console.log(`  efficiency ${(100 * efficiency).toFixed(1)}%`);
    return {
      model: flags.model,
      batch,
      zero: Number(flags.zero),
      gpus: several,
      milliseconds: times,
      efficiency,
      said,
    };
  });
if (flags.out) writeFileSync(flags.out, `${JSON.stringify(results, null, 2)}\n`);
