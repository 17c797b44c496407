// The course's kernels: every op against its formula, at the op suite's sizes; and GPT-2's whole training step on them alone.
import { afterEach, describe, expect, it } from 'vitest';
import { contractNamed, type LoadedCard, loadCards } from '../../src/kernels/card.ts';
import { useCards } from '../../src/kernels/use-cards.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { createModel } from '../../src/model/model.ts';
import { Device, type Dtype } from '../../src/native/device.ts';
import { opCases } from '../../src/op-cases/index.ts';
import { Random } from '../../src/op-cases/numbers.ts';
import { runCase } from '../../src/op-cases/run-case.ts';
import { variantsOf } from '../../src/op-cases/variants.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { describeCuda } from '../support/backends.ts';
import { course, rungs } from '../support/course.ts';

const loaded = await Promise.all(rungs.map(loadCards));
const cards: readonly (readonly [string, LoadedCard])[] = loaded.flatMap((all) =>
  all.map((card) => [`${card.op} of ${card.folder.slice(course.length + 1)}`, card] as const),
);
/** A formula of more takes seconds. */
const isQuick = (sizes: Readonly<Record<string, number>>) =>
  Object.entries(sizes).every(([name, size]) => size <= (name === 'count' ? 1e6 : 5000));

describeCuda('the course', () => {
  let device: Device;
  afterEach(() => device.close());

  describe.each(['fp32', 'bf16'] as const)('%s', (dtype: Dtype) => {
    const own = cards.filter(([, { dtypes = ['fp32'] }]) => dtypes.includes(dtype));
    it.each(own)('%s', async (_, card) => {
      device = Device.open({ kind: 'cuda', dtype });
      await useCards(device, [card]);
      const cases = Object.values(opCases)
        .flat()
        .find(({ op }) => op.name === contractNamed(card.op).name)!;
      for (const sizes of cases.sizes.filter(isQuick)) {
        for (const variant of variantsOf(cases)) {
          const wrong = (await runCase(device, cases, sizes, variant)).filter(({ isWithin }) => !isWithin);
          expect(wrong, JSON.stringify(sizes)).toEqual([]);
        }
      }
    });
  });

  const config = { vocabularySize: 300, context: 64, layers: 2, heads: 2, channels: 128 };
  const [batch, sequence] = [4, 64];

  /** The losses of some steps, each on the same random tokens. */
  async function losses(dtype: Dtype, used: readonly LoadedCard[], graphs: boolean): Promise<number[]> {
    device = Device.open({ kind: 'cuda', dtype, graphs });
    const calls = new Set<string>();
    await useCards(device, used);
    const model = createModel(device, config, { B: batch, T: sequence, purpose: 'training' });
    initializeWeights(model, 42);
    const options = { batch, sequence, accumulation: 1, optimizer: new AdamW({ weightDecay: 0.1 }), gradientClip: 1 };
    const trainer = new Trainer(model, options);
    const tokens = Int32Array.from(new Random(1).integers(batch * sequence + 1, 300));
    const data = { inputs: tokens.subarray(0, -1), targets: tokens.subarray(1) };
    const results: number[] = [];
    await device.observed(
      (name) => calls.add(name),
      async () => {
        for (let step = 0; step < 20; step++) {
          results.push((await trainer.step(step, 1e-3, () => data)).loss);
        }
      },
    );
    device.close();
    if (used.length > 1 && !graphs) {
      expect(
        [...calls].filter((name) => /Forward|Backward|classifier|adamw|crossEntropy|lossSum|globalNorm$/.test(name)),
      ).toEqual([]);
    }
    return results;
  }

  it('trains GPT-2 on naive kernels alone, as on ours', async () => {
    const naive = loaded.flat().filter(({ folder }) => folder.endsWith('1-naive'));
    const [own, replaced] = [await losses('fp32', [], true), await losses('fp32', naive, true)];
    for (const [step, loss] of replaced.entries()) expect(loss, `step ${step}`).toBeCloseTo(own[step]!, 3);
    expect(own.at(-1)!).toBeLessThan(own[0]! - 0.5);
    expect(await losses('fp32', naive, true), 'twice').toEqual(replaced);
    expect(await losses('fp32', naive, false), 'op by op').toEqual(replaced);
  });

  it('trains in bf16 with one layernorm of the course', async () => {
    const layernorm = loaded.flat().filter(({ folder }) => folder.endsWith('layernorm/1-naive'));
    const [own, replaced] = [await losses('bf16', [], true), await losses('bf16', layernorm, true)];
    for (const [step, loss] of replaced.entries())
      expect(Math.abs(loss - own[step]!), `step ${step}`).toBeLessThan(0.02);
  });
});
