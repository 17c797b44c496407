// Makes the table of the largest batches that fit on GPUs of each size, from the planner that train uses.
import hopperBench from '../benchmarks/h100/d12-b64-t1024.json' with { type: 'json' };
import { recomputeNames } from '../src/model/activation-tables.ts';
import { presetConfig } from '../src/model/config.ts';
import { largestFitting, upTo } from '../src/model/memory.ts';
import { absentDevice } from '../src/native/absent-device.ts';
import type { Dtype } from '../src/native/device.ts';
import { AdamW } from '../src/optimizer/adamw.ts';
import { neededBytes } from '../src/train/plan/plan-memory.ts';
import { table } from './docs-options.ts';

const gpus: Readonly<Record<number, string>> = {
  8: 'RTX 4060',
  12: 'RTX 4070',
  16: 'RTX 4080, RTX 5080',
  24: 'RTX 4090, L4, A10',
  32: 'RTX 5090',
  40: 'A100 40 GB',
  48: 'L40S, RTX 6000 Ada',
  80: 'A100, H100',
  141: 'H200',
};
const models = ['d12', 'd24', 'd36', 'd48'];
const T = 1024;
/** The largest batch that --batch auto takes: a larger one is hardly faster. */
const most = 65536 / T;

/** No workspace measured on an H100 was larger (benchmarks/h100). */
const workspace = 128 * 2 ** 20;

/**
 * Free bytes of a GPU when a run starts: drivers keep up to 0.5% of the memory, and CUDA's context takes as much as on an H100.
 */
const freeOf = (gib: number): number => gib * 2 ** 30 * 0.995 - hopperBench.memory.before;

/** The largest batch of a model; 0 if not even one sequence fits. */
export function largestBatch(model: string, dtype: Dtype, recompute: (typeof recomputeNames)[number], gib: number) {
  const sizes = { T, optimizer: new AdamW({ weightDecay: 0 }), recompute, samples: true };
  // The sizes of workspaces, which only the library knows, count as 0.
  const device = absentDevice({ kind: 'cuda', dtype });
  const fits = (B: number) => neededBytes(device, presetConfig(model)!, { ...sizes, B }) + workspace <= freeOf(gib);
  return largestFitting(upTo(most), fits) ?? 0;
}

export function fits([dtype = '']: readonly string[]): string {
  const rows = Object.entries(gpus).map(([gib, names]) => [
    `${gib} GB`,
    names,
    ...models.map((model) => {
      const batches = recomputeNames.map((each) => largestBatch(model, dtype as Dtype, each, Number(gib)));
      return batches.map((batch) => (batch === 0 ? '-' : String(batch))).join(' / ');
    }),
  ]);
  return table(['memory', 'for example', ...models], rows, 2);
}
