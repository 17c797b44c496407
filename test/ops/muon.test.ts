// Tests that the cases of Muon's ops do not make: a step without an update, and a matrix of zeros.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import {
  contracts,
  muonMomentum,
  muonUpdate,
  newtonSchulzScratch,
  normalizeMatrices,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends('muon', (device) => {
  it.each([
    [31, 17],
    [16, 64],
  ])('leaves every bit of %i x %i as it is in a step without an update', (rows, columns) => {
    using bench = new TensorBench(device());
    const random = new Random(3);
    const draw = (name: string) => bench.tensor(name, [rows, columns], random.normals(rows * columns));
    const [weight, momentum, direction] = [draw('weight'), draw('momentum'), draw('direction')];
    const gradient = bench.tensor('gradient', [rows, columns], new Float32Array(rows * columns).fill(Number.NaN));
    const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(1);
    block[GPT2_STEP.GPT2_STEP_UPDATED] = 0;
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE], block);
    const before = [weight, momentum, direction].map((tensor) => floats(tensor));
    muonMomentum(device(), { direction, momentum, gradient, step, scalar: GPT2_STEP.GPT2_STEP_SCALARS });
    muonUpdate(device(), { weight, master: weight, direction, step, rate: 2, weightDecay: 0.1 });
    expect([weight, momentum, direction].map((tensor) => floats(tensor))).toEqual(before);
    bench.checkGuards();
  });

  it('divides a matrix of zeros by eps, and its neighbour by its norm', () => {
    using bench = new TensorBench(device());
    const matrices = bench.tensor('matrices', [2, 1, 4], [0, 0, 0, 0, 3, 0, 0, 4]);
    device().reserveWorkspace(newtonSchulzScratch(device(), { M: 2, R: 1, K: 4 }));
    normalizeMatrices(device(), { matrices, margin: 1, eps: 1e-7 });
    const [zeros, other] = [floats(matrices).subarray(0, 4), floats(matrices).subarray(4)];
    expect([...zeros]).toEqual([0, 0, 0, 0]);
    for (const [index, wanted] of [0.6, 0, 0, 0.8].entries()) expect(other[index]).toBeCloseTo(wanted, 6);
    bench.checkGuards();
  });
});

// In fp32 the weights are the masters. Cases give a tensor that is kept its partner's memory, as CUDA's kernels demand.
it.each([contracts.adamw, contracts.muonUpdate])('$name writes weights without reading them', ({ tensors }) => {
  expect(tensors.weight).toMatchObject({ access: 'kept', mayBe: ['master'] });
});
