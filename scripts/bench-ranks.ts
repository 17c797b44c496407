// Tokens per second of each GPU alone, of each for itself beside the others, and of all together, and how near together they come
// to as many times the slowest, which sets the pace of all. Beside each other GPUs may be slower than alone: they share a
// machine's power and air. Runs alternate, each a process of its own, on the data at hand. Median of the steps behind the
// first ten, of the best round; a batch below 64 takes as many more steps.
//   node --import tsx scripts/bench-ranks.ts [--gpus 2] [--model d12] [--batches 64,8] [--zero 1] [--overlaps auto] [--rounds 2]
//     [--steps 60] [--data data/tinyshakespeare] [--out FILE.json]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { logPath } from '../src/runs/paths.ts';
import { readRun } from '../src/runs/reader.ts';

const { values: flags } = parseArgs({
  options: {
    gpus: { type: 'string', default: '2' },
    model: { type: 'string', default: 'd12' },
    batches: { type: 'string', default: '64,8' },
    zero: { type: 'string', default: '1' },
    overlaps: { type: 'string', default: 'auto' },
    rounds: { type: 'string', default: '2' },
    steps: { type: 'string', default: '60' },
    data: { type: 'string', default: 'data/tinyshakespeare' },
    out: { type: 'string' },
  },
});
const warmup = 10;
// Ends the run that is being measured too.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
/** Milliseconds: what hangs is ended. */
const longestRun = 180_000;
const root = fileURLToPath(new URL('..', import.meta.url));

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

/** Milliseconds of a step on these GPUs, and what the run said of the way between ranks. It is ended before it would save. */
async function measure(gpus: readonly number[], batch: number, overlap: string): Promise<{ ms: number; said: string }> {
  const out = mkdtempSync(join(tmpdir(), 'gpt2-ranks-'));
  const steps = Math.ceil(Number(flags.steps) * Math.max(1, 64 / batch));
  const child = spawn(
    process.execPath,
    [
      ...['--import', 'tsx', 'src/cli.ts', 'train', '--device', 'cuda', '--gpus', String(gpus.length)],
      ...['--zero', flags.zero, '--overlap', overlap, '--steps', String(100 * steps)],
      ...['--model', flags.model, '--batch', String(batch), '--seq', '1024'],
      ...['--data', flags.data, '--order', 'sequence', '--val-every', '0', '--sample-every', '0', '--out', out],
    ],
    // A group of its own, so that its ranks end with it.
    { cwd: root, detached: true, env: { ...process.env, CUDA_VISIBLE_DEVICES: gpus.join() } },
  );
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => said.push(text));
  const ended = once(child, 'close');
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const kill = () => {
    if (!hasEnded()) process.kill(-child.pid!, 'SIGKILL');
  };
  process.once('exit', kill);
  try {
    const end = performance.now() + longestRun;
    for (;;) {
      await setTimeout(100);
      if (hasEnded() || performance.now() > end) throw new Error(said.join(''));
      if (!existsSync(logPath(out)) || statSync(logPath(out)).size === 0) continue;
      const times = readRun(out).events.flatMap((event) => (event.event === 'train' ? [event.ms] : []));
      if (times.length < steps) continue;
      return {
        ms: median(times.slice(warmup, steps)),
        said:
          said
            .join('')
            .split('\n')
            .find((line) => line.includes(' GB/s')) ?? '',
      };
    }
  } finally {
    process.off('exit', kill);
    kill();
    await ended;
    rmSync(out, { recursive: true, force: true });
  }
}

const all = Array.from({ length: Number(flags.gpus) }, (_, gpu) => gpu);
const overlaps = flags.overlaps.split(',');
const { model } = flags;
const zero = Number(flags.zero);
const results: unknown[] = [];
for (const batch of flags.batches.split(',').map(Number)) {
  const alone: number[][] = all.map(() => []);
  const beside: number[][] = all.map(() => []);
  const together: number[][] = overlaps.map(() => []);
  const said: string[] = overlaps.map(() => '');
  for (let round = 0; round < Number(flags.rounds); round++) {
    for (const gpu of all) alone[gpu]!.push((await measure([gpu], batch, 'auto')).ms);
    const times = await Promise.all(all.map((gpu) => measure([gpu], batch, 'auto')));
    for (const gpu of all) beside[gpu]!.push(times[gpu]!.ms);
    for (const [index, overlap] of overlaps.entries()) {
      const measured = await measure(all, batch, overlap);
      together[index]!.push(measured.ms);
      said[index] = measured.said || said[index]!;
    }
  }
  console.log(`${model} batch ${batch} a GPU, ZeRO ${zero}`);
  const tell = (who: string, times: readonly number[], gpus: number): number => {
    const tokens = (gpus * batch * 1024 * 1000) / Math.min(...times);
    const each = times.map((ms) => ms.toFixed(2)).join(', ');
    console.log(`  ${who}  ${Math.round(tokens).toLocaleString('en-US')} tokens/s   ${each} ms a step`);
    return tokens;
  };
  const slowest = Math.min(...alone.map((times, gpu) => tell(`GPU ${gpu} alone`, times, 1)));
  const slowestBeside = Math.min(...beside.map((times, gpu) => tell(`GPU ${gpu} beside the others`, times, 1)));
  for (const [index, overlap] of overlaps.entries()) {
    const rate = tell(`all ${all.length}, --overlap ${overlap}`, together[index]!, all.length);
    const [efficiency, efficiencyBeside] = [slowest, slowestBeside].map((one) => rate / (all.length * one));
    const percent = (share: number) => `${(100 * share).toFixed(1)}%`;
    console.log(`  ${said[index]}`);
    console.log(`  ${percent(efficiency!)} of the slowest alone, ${percent(efficiencyBeside!)} beside the others`);
    const times = { alone, beside, together: together[index] };
    results.push({ model, batch, zero, overlap, ...times, efficiency, efficiencyBeside, said: said[index] });
  }
}
if (flags.out) writeFileSync(flags.out, `${JSON.stringify(results, null, 2)}\n`);
