// Compares plan, --batch auto and the advice of refusals over models, sequences, steps and limits: they must agree.
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { recomputeNames } from '../../../src/model/activation-tables.ts';
import { totalOf } from '../../../src/model/memory.ts';
import { resolveSources } from '../../../src/options/sources.ts';
import type { TrainOptions } from '../../../src/options/table.ts';
import { planSources, type TrainingPlan } from '../../../src/train/plan/plan.ts';
import { workplace } from '../../support/cli.ts';
import { haveMemory } from '../../support/memory.ts';
import { parseOptions } from '../../support/options.ts';

const place = workplace();
let data: string;
beforeAll(() => {
  data = place.data({ vocabulary: 50257 });
});
beforeEach(() => haveMemory(64));

const plan = (options: TrainOptions): Promise<TrainingPlan> =>
  planSources(resolveSources({ device: 'cpu', data, steps: 1, ...options }), {}, async () => undefined);
const planned = ({ memory }: TrainingPlan) => totalOf(memory) / 2 ** 30;

const grid = ['d6', 'd12', 'd36'].flatMap((model) =>
  [64, 1000, 1024].flatMap((sequence) =>
    [1, 35, 64].flatMap((rows) =>
      [0.4, 1, 2.2, 4, 16, 40].map((maxMemory) => ({ model, sequence, maxMemory, totalBatch: rows * sequence })),
    ),
  ),
);

describe.each(grid)('$model, steps of $totalBatch in sequences of $sequence, $maxMemory GiB', (given) => {
  const rows = given.totalBatch / given.sequence;
  const { maxMemory } = given;

  it('auto picks the largest that fits, and computes again only where nothing else does', async () => {
    let picked: TrainingPlan;
    try {
      picked = await plan({ ...given, batch: 'auto' });
    } catch (error) {
      expect((error as Error).message).toMatch(/^--batch auto: not one sequence/);
      const least = await plan({ ...given, batch: 1, recompute: 'block' });
      expect(least.refusal).toMatch(/no batch fits/);
      expect(planned(least)).toBeGreaterThan(maxMemory);
      return;
    }
    const { batch, recompute, refusal } = picked;
    expect(refusal).toBeUndefined();
    expect(planned(picked)).toBeLessThanOrEqual(maxMemory);
    expect(batch * picked.sequence * picked.accumulation).toBe(given.totalBatch);
    for (let more = batch + 1; more <= rows; more++) {
      // No more than make a CPU faster.
      if (rows % more === 0 && more * picked.sequence <= 4096)
        expect((await plan({ ...given, batch: more, recompute })).refusal).toBeDefined();
    }
    const weaker = recomputeNames[recomputeNames.indexOf(recompute) - 1];
    if (weaker) expect((await plan({ ...given, batch: 1, recompute: weaker })).refusal).toBeDefined();
  });

  it('a step in one go is refused exactly where its table is over the limit, with flags that fit', async () => {
    const whole = await plan({ ...given, batch: rows });
    if (whole.refusal === undefined) {
      expect(planned(whole)).toBeLessThanOrEqual(maxMemory);
      return;
    }
    expect(planned(whole)).toBeGreaterThan(maxMemory);
    expect(whole.refusal).toContain(`needs ${planned(whole).toFixed(1)} GiB`);
    const advice = /; (.*) fits$/.exec(whole.refusal)?.[1];
    if (advice === undefined) {
      await expect(plan({ ...given, batch: 'auto' })).rejects.toThrow('not one sequence');
      return;
    }
    for (const flags of advice.split(', or ')) {
      const advised = await plan({ ...given, batch: rows, ...parseOptions(flags) });
      expect(advised.refusal, flags).toBeUndefined();
      expect(planned(advised), flags).toBeLessThanOrEqual(maxMemory);
    }
  });
});
