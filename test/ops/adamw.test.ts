// AdamW: several updates against PyTorch in double, with clipping, bias correction and decay.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/buffer.ts';
import { floats, Random } from '../../src/op-cases/numbers.ts';
import { adamw } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { expectClose, TensorBench } from '../support/tensors.ts';

/** The last place in the step block that adamw accepts. */
const firstScalar = GPT2_STEP.GPT2_STEP_STOP - 2;

interface Scalars {
  beta1: number;
  beta2: number;
  eps: number;
  weightDecay: number;
  steps: { learningRate: number; clip: number; beta1Correction: number; beta2Correction: number }[];
}

describeBackends('adamw', (device) => {
  it.each(opCases('adamw'))('equals PyTorch: $name', ({ get, sizes, scalars }) => {
    using bench = new TensorBench(device());
    const count = sizes.count!;
    const { beta1, beta2, eps, weightDecay, steps } = scalars as unknown as Scalars;
    const weight = bench.fixture('weight', get('before'));
    const m = bench.tensor('m', [count], new Float32Array(count));
    const v = bench.tensor('v', [count], new Float32Array(count));
    const gradient = bench.tensor('gradient', [count]);
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE]);
    const row = (key: string, index: number) =>
      get(key).values.subarray(index * count, (index + 1) * count) as Float32Array;
    steps.forEach((values, index) => {
      const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
      block[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = values.learningRate;
      block.set([values.beta1Correction, values.beta2Correction], firstScalar);
      block[GPT2_STEP.GPT2_STEP_CLIP] = values.clip;
      block[GPT2_STEP.GPT2_STEP_UPDATED] = 1;
      step.write(block);
      gradient.write(row('gradients', index));
      adamw(device(), { weight, master: weight, m, v, gradient, step, firstScalar, beta1, beta2, eps, weightDecay });
      // A few fp32 roundings of each element.
      expectClose(`weights after update ${index + 1}`, floats(weight), row('master', index), 1e-6);
      expectClose(`m after update ${index + 1}`, floats(m), row('m', index), 1e-6);
      expectClose(`v after update ${index + 1}`, floats(v), row('v', index), 1e-6);
    });
    bench.checkGuards();
  });

  it('leaves every bit as it is in a step without an update', () => {
    using bench = new TensorBench(device());
    const count = 1003;
    const random = new Random(3);
    const draw = (name: string) => bench.tensor(name, [count], random.normals(count));
    const [weight, m, v] = [draw('weight'), draw('m'), draw('v')];
    const gradient = bench.tensor('gradient', [count], new Float32Array(count).fill(Number.NaN));
    const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(1);
    block[GPT2_STEP.GPT2_STEP_UPDATED] = 0;
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE], block);
    const before = [weight, m, v].map((tensor) => floats(tensor));
    adamw(device(), {
      ...{ weight, master: weight, m, v, gradient, step },
      ...{ firstScalar, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 },
    });
    expect([weight, m, v].map((tensor) => floats(tensor))).toEqual(before);
    bench.checkGuards();
  });

  it.each([GPT2_STEP.GPT2_STEP_SCALARS - 1, firstScalar + 1])('rejects scalars outside their range: %i', (index) => {
    using bench = new TensorBench(device());
    const [weight, m, v, gradient] = ['weight', 'm', 'v', 'gradient'].map((name) => bench.tensor(name, [32])) as [
      ...[Tensor, Tensor, Tensor, Tensor],
    ];
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE]);
    const scalars = { firstScalar: index, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 };
    expect(() => adamw(device(), { weight, master: weight, m, v, gradient, step, ...scalars })).toThrow(
      /firstScalar.*, got firstScalar/,
    );
  });
});
