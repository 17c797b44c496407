// Memory of kernels that replace ops (--kernel): the plan is what a step allocates, and --batch auto counts it.
import { beforeAll, describe, expect, it } from 'vitest';
import { AdamW, createModel, Device, planRun, type TrainOptions, train } from '../../../src/index.ts';
import { inferencePlan, totalOf } from '../../../src/model/memory.ts';
import { loadFolders } from '../../../src/ops/kernels/card-hash.ts';
import { reserveScratch, useCards } from '../../../src/ops/kernels/use-cards.ts';
import { trainingPlan } from '../../../src/train/plan/plan-memory.ts';
import { workplace } from '../../support/cli.ts';
import { drawnModel, forwardOf, tinyTrainer } from '../../support/tiny-model.ts';
import { tinyRun } from '../../support/tiny-run.ts';

const config = { layers: 2, heads: 2, channels: 32, context: 32, vocabularySize: 100 };
const [B, T, accumulation] = [2, 32, 2];
const optimizer = new AdamW({ weightDecay: 0.1 });
const batch = () => ({ inputs: new Int32Array(B * T).fill(3), targets: new Int32Array(B * T).fill(5) });

describe.each([
  [['attention/1-naive'], ['scratch of attention_forward', 'scratch of attention_backward']],
  [
    ['layernorm/2-warp', 'optimizer/2-vectors'],
    ['scratch of norm_backward.layernorm', 'scratch of global_norm'],
  ],
  [['gelu/1-naive'], []],
])('with %j', (rungs, scratch) => {
  const folders = rungs.map((rung) => `kernels/course/${rung}`);

  it('the plan of training is what a step takes, whether or not it is reserved before', async () => {
    for (const isReserved of [false, true]) {
      using device = Device.open({ kind: 'cpu', accumulates: true });
      const cards = await loadFolders(folders);
      await useCards(device, cards);
      const sizes = { B, T, rows: B * accumulation, optimizer };
      const plan = trainingPlan(device, config, { ...sizes, cards });
      if (isReserved) reserveScratch(device, plan);
      const model = drawnModel(device, config, { B, T, purpose: 'training' });
      const trainer = tinyTrainer(model, { batch: B, sequence: T, accumulation, optimizer });
      await trainer.step(0, 1e-3, batch);
      expect(Object.fromEntries(device.allocated)).toEqual(Object.fromEntries(plan));
      const more = [...plan.keys()].filter((name) => !trainingPlan(device, config, sizes).has(name));
      expect(more.sort()).toEqual([...scratch].sort());
    }
  });

  it('the plan of inference is what a batch takes', async () => {
    using device = Device.open({ kind: 'cpu' });
    const cards = await loadFolders(folders);
    await useCards(device, cards);
    const model = createModel(device, config, { B, T, purpose: 'inference' });
    forwardOf(model, batch(), T);
    await device.finished();
    expect(Object.fromEntries(inferencePlan(device, config, { B, T, cards }))).toEqual(
      Object.fromEntries(device.allocated),
    );
  });
});

describe('a run', () => {
  const place = workplace();
  let options: TrainOptions;
  beforeAll(() => {
    options = { ...tinyRun, context: 64, data: place.data({ vocabulary: 100 }) };
  });
  const kernels = ['kernels/course/attention/1-naive'];

  it('takes what --dry-run says', async () => {
    const asked = { ...options, kernels, batch: 2, sequence: 32 };
    const { memory } = await planRun(asked);
    expect(memory.get('scratch of attention_forward')).toBe(4 * 2 * 2 * 32 * 32);
    let bytes = 0;
    const given = { ...asked, steps: 1, out: place.path('run') };
    await train(given, { onStart: ({ memoryBytes }) => (bytes = memoryBytes) });
    expect(bytes).toBe(totalOf(memory));
  });

  it('with --batch auto takes fewer sequences where the scratch needs their memory', async () => {
    const sizes = { layers: 4, channels: 128, heads: 16, context: 64, sequence: 64, recompute: 'none' } as const;
    const asked: TrainOptions = { ...options, ...sizes, batch: 'auto', totalBatch: 64 * 64 };
    const whole = totalOf((await planRun({ ...asked, batch: 64 })).memory);
    const limited = { ...asked, maxMemory: whole / 2 ** 30 };
    expect((await planRun(limited)).batch).toBe(64);
    const own = await planRun({ ...limited, kernels });
    expect(own.batch).toBe(32);
    expect(totalOf(own.memory)).toBeLessThanOrEqual(whole);
    expect((await planRun({ ...limited, kernels, batch: 64 })).refusal).toMatch(
      /^--batch 64 with .*; --recompute gelu, or --batch 32 --total-batch 4096 fits$/,
    );
  });
});
