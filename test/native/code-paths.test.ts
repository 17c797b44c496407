// Every code path of the CPU library that this CPU has, not only the best: the tiny model's ten updates against PyTorch,
// and products of GPT-2's own sizes against the portable path.

import { describe, expect, it, vi } from 'vitest';
import { NativeError } from '../../src/base/errors.ts';
import { linearBackwardInput, linearForward } from '../../src/model/linear.ts';
import { Device } from '../../src/native/device.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { matmulBackwardWeight, matmulScratch } from '../../src/ops/ops.generated.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { expectClose, TensorBench } from '../support/tensors.ts';
import { recordedBatch, recordedModel, tinyFixture, tinyTrainer } from '../support/tiny-model.ts';

function open(path: string): Device | undefined {
  vi.stubEnv('GPT2_KERNELS', path);
  try {
    return Device.open({ kind: 'cpu' });
  } catch (error) {
    if (error instanceof NativeError && error.status === 'GPT2_UNSUPPORTED') return undefined;
    throw error;
  }
}

/** The three products of a layer's first MLP matmul in d6, B 4, T 64. */
function products(device: Device): Float32Array[] {
  using bench = new TensorBench(device);
  const { N, C, O } = { N: 256, C: 384, O: 1536 };
  device.reserveWorkspace(matmulScratch(device, { N, C, O, gradients: true }));
  const random = new Random(9);
  const input = bench.tensor('in', [N, C], random.normals(N * C));
  const weight = bench.tensor('weight', [O, C], random.normals(O * C));
  const dout = bench.tensor('dout', [N, O], random.normals(N * O));
  const [out, dinput, dweight] = [bench.tensor('out', [N, O]), bench.tensor('din', [N, C]), bench.tensor('dw', [O, C])];
  linearForward(device, { out: { plain: out }, in: { plain: input }, weight, bias: null });
  linearBackwardInput(device, { din: { plain: dinput }, dout: { plain: dout }, weight });
  matmulBackwardWeight(device, { dweight, dbias: null, dout, in: input, accumulate: false });
  return [out, dinput, dweight].map(floats);
}

describe.each(['portable', 'avx2', 'avx512'])('code path %s', (path) => {
  it('ten updates equal PyTorch', async ({ skip }) => {
    using device = open(path);
    if (!device) return skip(`this CPU has no ${path}`);
    expect(device.description.codePath).toBe(path);
    const { learningRate, weightDecay, gradClip: gradientClip } = tinyFixture.training;
    const trainer = tinyTrainer(recordedModel(device), { optimizer: new AdamW({ weightDecay }), gradientClip });
    for (const [index, loss] of tinyFixture.float64.losses.entries()) {
      const result = await trainer.step(index, learningRate, () => recordedBatch);
      expect(Math.abs(result.loss - loss), `loss of step ${index}`).toBeLessThan(1e-5);
    }
  });

  it('products agree with the portable path', ({ skip }) => {
    using device = open(path);
    if (!device) return skip(`this CPU has no ${path}`);
    using portable = open('portable')!;
    const wanted = products(portable);
    // Only the order of sums within blocks of K and fused rounding differ.
    for (const [index, values] of products(device).entries())
      expectClose(`product ${index}`, values, wanted[index]!, 2e-6);
  });
});
