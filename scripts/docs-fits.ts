// Makes the table of the largest batches that fit on GPUs of each size, from the planner that train uses.
import { attempt, Gpt2Error } from '../src/base/errors.ts';
import { recomputeNames } from '../src/model/activation-tables.ts';
import { presetConfig } from '../src/model/config.ts';
import { AdamW } from '../src/optimizer/adamw.ts';
import { chooseBatch } from '../src/train/plan/plan-memory.ts';
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

/** The batch that --batch auto takes in bf16 on a GPU that --for names by its memory; 0 if not even one sequence fits. */
function largestBatch(model: string, recompute: (typeof recomputeNames)[number], gib: number) {
  const sizes = { T: 1024, rows: undefined, optimizer: new AdamW({ weightDecay: 0 }), recompute, samples: true };
  const limits = { maxMemory: undefined, gpu: `${gib}GB` };
  const found = attempt(() =>
    chooseBatch({ kind: 'cuda', dtype: 'bf16' }, presetConfig(model)!, { ...sizes, ...limits }),
  );
  return found instanceof Gpt2Error ? 0 : found.batch;
}

export function fits(): string {
  const rows = Object.entries(gpus).map(([gib, names]) => [
    `${gib} GB`,
    names,
    ...models.map((model) => {
      const batches = recomputeNames.map((each) => largestBatch(model, each, Number(gib)));
      return batches.map((batch) => (batch === 0 ? '-' : String(batch))).join(' / ');
    }),
  ]);
  return table(['memory', 'for example', ...models], rows, 2);
}
