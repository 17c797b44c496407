// Contexts of bf16 that accumulate keep the gradients of matrices in fp32: the ops that write them, against their formulas in
// double from the rounded inputs. What is left is the error of fp32 sums.
import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { floats, held, Random, relativeError } from '../../src/ops/cases/case-numbers.ts';
import { product } from '../../src/ops/cases/matmul.ts';
import {
  embeddingBackward,
  embeddingScratch,
  matmulBackwardWeight,
  matmulScratch,
} from '../../src/ops/ops.generated.ts';
import { describeCuda } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

describeCuda('bf16 that accumulates', () => {
  // k split over blocks, one block a tile, and lines that the tensor-core kernel does not take.
  it.each([
    { N: 3000, C: 136, O: 200 },
    { N: 40, C: 768, O: 768 },
    { N: 50, C: 37, O: 24 },
  ])('weight gradients, N $N C $C O $O', ({ N, C, O }) => {
    using device = Device.open({ kind: 'cuda', dtype: 'bf16', accumulates: true });
    using bench = new TensorBench(device);
    device.reserveWorkspace(matmulScratch(device, { N, C, O, gradients: true }));
    const random = new Random(N);
    const [x, d] = [held('bf16', random.normals(N * C)), held('bf16', random.normals(N * O))];
    const [input, dout] = [bench.tensor('in', [N, C], x), bench.tensor('dout', [N, O], d)];
    const before = random.normals(O * C);
    const [dweight, dbias] = [bench.floats('dweight', [O, C], before), bench.floats('dbias', [O], new Float32Array(O))];
    const wanted = product(d, x, { N: O, K: N, O: C }, 'tn');
    const bound = 1e-6 * Math.sqrt(N);
    matmulBackwardWeight(device, { dweight, dbias, dout, in: input, accumulate: true });
    expect(
      relativeError(
        floats(dweight),
        wanted.map((value, index) => value + before[index]!),
      ),
    ).toBeLessThan(bound);
    matmulBackwardWeight(device, { dweight, dbias, dout, in: input, accumulate: false });
    expect(relativeError(floats(dweight), wanted)).toBeLessThan(bound);
    bench.checkGuards();
  });

  it('embedding gradients', () => {
    using device = Device.open({ kind: 'cuda', dtype: 'bf16', accumulates: true });
    using bench = new TensorBench(device);
    const [B, T, C, V] = [3, 300, 72, 500];
    device.reserveWorkspace(embeddingScratch(device, { B, T, C, V }));
    const random = new Random(1);
    const ids = random.integers(B * T, 30);
    const d = held('bf16', random.normals(B * T * C));
    const [tokens, dout] = [bench.tensor('tokens', [B, T], ids, 'int32'), bench.tensor('dout', [B, T, C], d)];
    const [dwte, dwpe] = [bench.floats('dwte', [V, C], new Float32Array(V * C)), bench.floats('dwpe', [T, C])];
    embeddingBackward(device, { dwte, dwpe, dout, tokens, V: V, accumulate: false });
    const [word, position] = [new Float64Array(V * C), new Float64Array(T * C)];
    d.forEach((value, index) => {
      const row = Math.floor(index / C);
      word[ids[row]! * C + (index % C)]! += value;
      position[(row % T) * C + (index % C)]! += value;
    });
    expect(relativeError(floats(dwte), word)).toBeLessThan(1e-6);
    expect(relativeError(floats(dwpe), position)).toBeLessThan(1e-6);
    bench.checkGuards();
  });
});
