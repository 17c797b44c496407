// The residual sum: exact, and in place on either side.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { residualForward } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends('residual', (device) => {
  it.each([1, 7, 64, 1000])('apart and in place, %i elements', (count) => {
    using bench = new TensorBench(device());
    const random = new Random(count);
    const [x, y] = [random.normals(count), random.normals(count)];
    const [a, b] = [bench.tensor('a', [count], x), bench.tensor('b', [count], y)];
    const sum = x.map((value, index) => value + y[index]!);
    const out = bench.tensor('out', [count]);
    residualForward(device(), { out, a, b });
    expect(floats(out)).toEqual(sum);
    residualForward(device(), { out: a, a, b });
    expect(floats(a)).toEqual(sum);
    a.write(x);
    residualForward(device(), { out: b, a, b });
    expect(floats(b)).toEqual(sum);
    bench.checkGuards();
  });
});
