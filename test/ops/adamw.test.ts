// AdamW: several updates against its formula in double, with clipping, bias correction and decay.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { adamw } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { expectClose, TensorBench } from '../support/tensors.ts';

/** The last place in the step block that adamw accepts. */
const firstScalar = GPT2_STEP.GPT2_STEP_TARGETS - 2;

/** Learning rate and clip factor of each update. */
const schedule = [
  [1e-3, 1],
  [7e-4, 0.25],
  [3e-4, 1],
  [1e-4, 0.731],
] as const;
const [beta1, beta2, eps] = [0.9, 0.95, 1e-8];

describeBackends('adamw', (device) => {
  it.each([0.1, 0])('equals its formula in double over four updates: weight decay %d', (weightDecay) => {
    using bench = new TensorBench(device());
    const count = 77;
    const random = new Random(2);
    const before = random.normals(count);
    const weight = bench.tensor('weight', [count], before);
    const m = bench.tensor('m', [count], new Float32Array(count));
    const v = bench.tensor('v', [count], new Float32Array(count));
    const gradient = bench.tensor('gradient', [count]);
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE]);
    const wanted = { weight: Float64Array.from(before), m: new Float64Array(count), v: new Float64Array(count) };
    schedule.forEach(([learningRate, clip], index) => {
      const corrections = [beta1, beta2].map((beta) => 1 - beta ** (index + 1)) as [number, number];
      const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
      block[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
      block.set(corrections, firstScalar);
      block[GPT2_STEP.GPT2_STEP_CLIP] = clip;
      block[GPT2_STEP.GPT2_STEP_UPDATED] = 1;
      step.write(block);
      // Gradients of six magnitudes, the first of them zero.
      const gradients = random.normals(count).map((value, i) => (i === 0 ? 0 : value * 10 ** -(i % 6)));
      gradient.write(gradients);
      for (let i = 0; i < count; i++) {
        const g = clip * gradients[i]!;
        wanted.m[i] = beta1 * wanted.m[i]! + (1 - beta1) * g;
        wanted.v[i] = beta2 * wanted.v[i]! + (1 - beta2) * g * g;
        const update = wanted.m[i]! / corrections[0] / (Math.sqrt(wanted.v[i]! / corrections[1]) + eps);
        wanted.weight[i]! -= learningRate * (update + weightDecay * wanted.weight[i]!);
      }
      const scalars = { firstScalar, rate: 1, beta1, beta2, eps, weightDecay };
      adamw(device(), { weight, master: weight, m, v, gradient, step, ...scalars });
      // A few fp32 roundings of each element.
      expectClose(`weights after update ${index + 1}`, floats(weight), wanted.weight, 1e-6);
      expectClose(`m after update ${index + 1}`, floats(m), wanted.m, 1e-6);
      expectClose(`v after update ${index + 1}`, floats(v), wanted.v, 1e-6);
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
      ...{ firstScalar, rate: 1, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 },
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
    const scalars = { firstScalar: index, rate: 1, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 };
    expect(() => adamw(device(), { weight, master: weight, m, v, gradient, step, ...scalars })).toThrow(
      /firstScalar.*, got firstScalar/,
    );
  });
});
