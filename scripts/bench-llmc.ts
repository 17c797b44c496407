// Measures training steps on one GPU, in this order: gpt2.ts, llm.c with all activations kept, llm.c with the GELU recomputed (its
// default), gpt2.ts again. Writes medians as JSON and prints a table; the ratio is to the faster setting of llm.c.
//
//   node --import tsx scripts/bench-llmc.ts PROGRAM [--shapes d12x64,d24x32,…] [--data FOLDER] [--out FILE]
//
// PROGRAM is `train_gpt2cu` of llm.c (github.com/karpathy/llm.c), built for this GPU in bf16 with `make train_gpt2cu USE_CUDNN=1`;
// LD_LIBRARY_PATH must contain the cuDNN and cuBLAS that PROGRAM was linked with. First build gpt2.ts and prepare tinyshakespeare.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { packageRoot } from '../src/base/package-root.ts';
import { median } from '../src/base/quantile.ts';
import { findShards } from '../src/index.ts';
import { TemporaryFolder } from '../src/native/temporary-folder.ts';
import { readFlags } from './flags.ts';
import { runLlmc } from './llmc.ts';

const sequence = 1024;
const warmupSeconds = 3;
const countedSteps = 20;
/** Values of llm.c's flag -r: 0 keeps all activations, 1 recomputes the GELU in backward. */
const recomputes = [0, 1];

const { shapes, data, out, positionals } = readFlags({
  ...{ shapes: 'd12x64,d12x32,d24x32,d36x16,d48x8', out: '' },
  data: join(packageRoot, 'data', 'tinyshakespeare'),
});
const [program] = positionals;
if (program === undefined) {
  console.error('usage: bench-llmc.ts PROGRAM [--shapes d12x64,d24x32] [--data FOLDER] [--out FILE]');
  process.exit(2);
}
const shard = resolve(findShards(data, 'train')[0]!);
using folder = new TemporaryFolder('bench-llmc');

type Measured = ReturnType<typeof measured>;

const measured = (ms: number, batch: number) => ({ ms, tokensPerSecond: (batch * sequence * 1000) / ms });

async function measureLlmc(model: string, batch: number, recompute: number): Promise<Measured> {
  const never = '1000000';
  const flags = ['-i', shard, '-j', shard, '-m', '1', '-v', never, '-s', '0', '-x', never, '-e', model];
  const sizes = ['-b', String(batch), '-t', String(sequence), '-r', String(recompute)];
  /** Milliseconds of each step after the first `warmupSeconds` of steps. */
  const counted = (steps: readonly { ms: number }[]) => {
    let warmed = 0;
    return steps.flatMap(({ ms }) => {
      if (warmed >= warmupSeconds * 1000) return [ms];
      warmed += ms;
      return [];
    });
  };
  const { steps } = await runLlmc(resolve(program!), {
    args: [...flags, ...sizes],
    cwd: folder.path,
    isEnough: (steps) => counted(steps).length >= countedSteps,
  });
  return measured(median(counted(steps)), batch);
}

function measureOurs(model: string, batch: number): Measured {
  const result = join(folder.path, 'ours.json');
  const sizes = ['--model', model, '--batch', String(batch), '--seq', String(sequence), '--data', data];
  const steps = ['--steps', String(countedSteps), '--warmup-seconds', String(warmupSeconds), '--no-start', '--no-ops'];
  execFileSync(process.execPath, ['--import', 'tsx', 'src/cli.ts', 'bench', ...sizes, ...steps, '--out', result], {
    cwd: packageRoot,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return measured(JSON.parse(readFileSync(result, 'utf8')).step.ms.median, batch);
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const query = ['--query-gpu=name,driver_version', '--format=csv,noheader'];
const gpu = execFileSync('nvidia-smi', query, { encoding: 'utf8' }).trim();
const results = [];
for (const shape of shapes.split(',')) {
  const [model, batch] = [shape.split('x')[0]!, Number(shape.split('x')[1])];
  const before = measureOurs(model, batch);
  const llmc: (Measured & { recompute: number })[] = [];
  for (const recompute of recomputes) llmc.push({ recompute, ...(await measureLlmc(model, batch, recompute)) });
  const ours = [before, measureOurs(model, batch)];
  const ratio = mean(ours.map((one) => one.tokensPerSecond)) / Math.max(...llmc.map((one) => one.tokensPerSecond));
  results.push({ model, batch, sequence, ours, llmc, ratio });
  const rates = (of: readonly Measured[]) => of.map((one) => Math.round(one.tokensPerSecond)).join(' ');
  const both = `ours ${rates(ours)}, llm.c ${rates(llmc)} tokens/s`;
  console.log(`${model} ${batch}x${sequence}: ${both}, ratio ${ratio.toFixed(3)}`);
  if (out) writeFileSync(out, `${JSON.stringify({ gpu, results }, null, 2)}\n`);
}
