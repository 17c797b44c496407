// Whether a step updates the weights, by its loss, its norm and their limits.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends('global-norm', (device) => {
  // [what, loss, gradient, loss limit, norm limit, after update, updated before, updated]
  const largest = 3.4028234663852886e38;
  it.each<[string, number, number, number, number, number, number, number]>([
    ['a finite loss and norm', 2, 3, largest, largest, 0, 0, 1],
    ['a loss of NaN', Number.NaN, 3, largest, largest, 0, 1, 0],
    ['an infinite loss', Number.POSITIVE_INFINITY, 3, largest, largest, 0, 1, 0],
    ['a gradient of NaN', 2, Number.NaN, largest, largest, 0, 1, 0],
    ['an infinite gradient', 2, Number.NEGATIVE_INFINITY, largest, largest, 0, 1, 0],
    ['a norm that fp32 cannot hold', 2, largest, largest, largest, 0, 1, 0],
    ['a loss at its limit', 2, 3, 2, 100, 0, 0, 1],
    ['a loss over its limit', 2.001, 3, 2, 100, 0, 1, 0],
    ['a norm over its limit', 2, 3, 2, 3, 0, 1, 0],
    ['the step after an update', 2, 3, largest, largest, 1, 1, 1],
    ['the step after one without', 2, 3, largest, largest, 1, 0, 0],
  ])('says whether the step updates: %s', (_, loss, gradient, lossLimit, normLimit, after, before, updated) => {
    using bench = new TensorBench(device());
    const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
    block[GPT2_STEP.GPT2_STEP_LOSS] = loss;
    block[GPT2_STEP.GPT2_STEP_TARGETS] = 1;
    block[GPT2_STEP.GPT2_STEP_LOSS_LIMIT] = lossLimit;
    block[GPT2_STEP.GPT2_STEP_NORM_LIMIT] = normLimit;
    block[GPT2_STEP.GPT2_STEP_AFTER_UPDATE] = after;
    block[GPT2_STEP.GPT2_STEP_UPDATED] = before;
    const given = { step: block, matrices: new Float32Array(5).fill(gradient), vectors: new Float32Array(3) };
    const sizes = { parts: 1, matrixCount: 5, vectorCount: 3, targets: 1, maxNorm: 1 };
    const { step } = bench.call('global_norm', sizes, given);
    expect(floats(step)[GPT2_STEP.GPT2_STEP_UPDATED]).toBe(updated);
  });
});
