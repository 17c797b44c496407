// Measures tokens per second of each GPU alone, of each GPU while all run separate jobs, and of one job with a rank on each GPU. The
// job's rate is also printed as a share of the slowest GPU's rate times the number of GPUs: the slowest GPU sets the pace. GPUs that
// work concurrently may be slower than alone, because they share a machine's power and cooling. Runs alternate. A result is the median
// of the steps after the first ten, in the best round; a batch below 64 takes proportionally more steps.
//   node --import tsx scripts/bench-ranks.ts [--gpus 2] [--model d12] [--dtype bf16] [--batches 64,8] [--zero 1] [--overlaps auto]
//     [--rounds 2] [--steps 60] [--data data/tinyshakespeare] [--out FILE.json]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { packageRoot } from '../src/base/package-root.ts';
import { median } from '../src/base/quantile.ts';
import { TemporaryFolder } from '../src/native/temporary-folder.ts';
import { logPath } from '../src/runs/paths.ts';
import { readRun } from '../src/runs/reader.ts';
import { readFlags } from './flags.ts';

const { gpus, model, dtype, batches, zero, overlaps, rounds, steps, data, out } = readFlags({
  ...{ gpus: 2, model: 'd12', dtype: 'bf16', batches: '64,8', zero: 1, overlaps: 'auto', rounds: 2, steps: 60 },
  ...{ data: 'data/tinyshakespeare', out: '' },
});
const warmup = 10;
/** A run that hangs is ended after this many milliseconds. */
const longestRun = 600_000;

/**
 * Milliseconds of a training step on the GPUs `on`, and the line in which the run reports the GB/s between them. The run is a child
 * process, which is killed before it saves.
 * @throws Error with the run's output if it ends before enough steps are logged
 */
async function measure(on: readonly number[], batch: number, overlap: string): Promise<{ ms: number; said: string }> {
  const count = Math.ceil(steps * Math.max(1, 64 / batch));
  using temporary = new TemporaryFolder('steps');
  const folder = temporary.path;
  const options = [
    ...['--device', 'cuda', '--gpus', String(on.length), '--zero', String(zero), '--overlap', overlap],
    ...['--model', model, '--dtype', dtype, '--batch', String(batch), '--seq', '1024', '--data', data],
    ...['--order', 'sequence', '--val-every', '0', '--sample-every', '0'],
    ...['--steps', String(100 * count), '--out', folder],
  ];
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/cli.ts', 'train', ...options], {
    cwd: packageRoot,
    // Detached, the child leads a process group with its ranks, so that `kill` ends all of them.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, CUDA_VISIBLE_DEVICES: on.join() },
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) createInterface(stream).on('line', (line) => lines.push(line));
  const ended = once(child, 'close');
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const kill = () => {
    if (!hasEnded()) process.kill(-child.pid!, 'SIGKILL');
  };
  const stop = () => process.exit(1);
  process.once('exit', kill).once('SIGINT', stop).once('SIGTERM', stop);
  try {
    const end = performance.now() + longestRun;
    for (;;) {
      await setTimeout(100);
      if (hasEnded() || performance.now() > end) throw new Error(lines.join('\n'));
      if (!statSync(logPath(folder), { throwIfNoEntry: false })?.size) continue;
      const times = readRun(folder).events.flatMap((event) => (event.event === 'train' ? [event.ms] : []));
      const said = lines.find((line) => line.includes(' GB/s')) ?? '';
      if (times.length >= count) return { ms: median(times.slice(warmup, count)), said };
    }
  } finally {
    process.off('exit', kill).off('SIGINT', stop).off('SIGTERM', stop);
    kill();
    await ended;
  }
}

const percent = (share: number) => `${(100 * share).toFixed(1)}%`;
const all = Array.from({ length: gpus }, (_, gpu) => gpu);
const results: unknown[] = [];
for (const batch of batches.split(',').map(Number)) {
  const alone: number[][] = all.map(() => []);
  const beside: number[][] = all.map(() => []);
  const jobs = overlaps.split(',').map((overlap) => ({ overlap, together: [] as number[], said: '' }));
  for (let round = 0; round < rounds; round++) {
    for (const gpu of all) alone[gpu]!.push((await measure([gpu], batch, 'auto')).ms);
    const times = await Promise.all(all.map((gpu) => measure([gpu], batch, 'auto')));
    for (const gpu of all) beside[gpu]!.push(times[gpu]!.ms);
    for (const job of jobs) {
      const { ms, said } = await measure(all, batch, job.overlap);
      job.together.push(ms);
      job.said = said || job.said;
    }
  }
  console.log(`${model} ${dtype}, batch ${batch} a GPU, ZeRO ${zero}`);
  const rateOf = (who: string, times: readonly number[], count: number): number => {
    const tokens = (count * batch * 1024 * 1000) / Math.min(...times);
    const each = times.map((ms) => ms.toFixed(2)).join(', ');
    console.log(`  ${who}  ${Math.round(tokens).toLocaleString('en-US')} tokens/s   ${each} ms a step`);
    return tokens;
  };
  const slowest = Math.min(...alone.map((times, gpu) => rateOf(`GPU ${gpu} alone`, times, 1)));
  const slowestBeside = Math.min(...beside.map((times, gpu) => rateOf(`GPU ${gpu}, all busy`, times, 1)));
  for (const { overlap, together, said } of jobs) {
    const rate = rateOf(`one job on ${gpus}, --overlap ${overlap}`, together, gpus);
    const [efficiency, efficiencyBeside] = [rate / (gpus * slowest), rate / (gpus * slowestBeside)];
    console.log(`  ${said}\n  ${percent(efficiency)} of the slowest alone, ${percent(efficiencyBeside)} with all busy`);
    results.push({ model, dtype, batch, zero, overlap, alone, beside, together, efficiency, efficiencyBeside, said });
  }
}
if (out) writeFileSync(out, `${JSON.stringify(results, null, 2)}\n`);
