// Causal attention: against PyTorch, its own differences, odd lengths and head sizes, and that it is causal.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { attentionBackward, attentionForward, attentionScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { checkGradient, dot, expectClose, expectFormula, TensorBench } from '../support/tensors.ts';

interface Sizes {
  B: number;
  T: number;
  C: number;
  NH: number;
}

function setUp(bench: TensorBench, { B, T, C, NH }: Sizes) {
  bench.device.reserveWorkspace(attentionScratch(bench.device, { B, T, C, NH }));
  return {
    out: bench.tensor('out', [B, T, C]),
    lse: bench.tensor('lse', [B, NH, T]),
    dqkv: bench.tensor('dqkv', [B, T, 3 * C]),
  };
}

describeBackends('attention', (device) => {
  it.each(opCases('attention'))('equals PyTorch, and backward its own differences: $name', ({ get, sizes }) => {
    using bench = new TensorBench(device());
    const { out, lse, dqkv } = setUp(bench, sizes as unknown as Sizes);
    const qkv = bench.fixture('qkv', get('qkv'));
    const dout = bench.fixture('dout', get('dout'));
    const loss = () => {
      attentionForward(device(), { out, lse, qkv, first: null });
      return dot(floats(out), floats(dout));
    };
    loss();
    expectClose('out', floats(out), get('out').values);
    expectClose('lse', floats(lse), get('lse').values);
    attentionBackward(device(), { dqkv, dout, out, qkv, lse, first: null });
    expectClose('dqkv', floats(dqkv), get('dqkv').values);
    checkGradient('qkv', { input: qkv, gradient: floats(dqkv), loss, random: new Random(1), step: 3e-3 });
    bench.checkGuards();
  });

  it.each([
    { B: 1, T: 1, C: 3, NH: 1 },
    { B: 3, T: 2, C: 6, NH: 6 },
    { B: 1, T: 127, C: 64, NH: 1 },
    { B: 1, T: 129, C: 80, NH: 1 },
    { B: 2, T: 31, C: 192, NH: 2 },
    { B: 1, T: 200, C: 128, NH: 1 },
  ])('forward in double, B $B T $T C $C NH $NH', (sizes) => expectFormula(device(), 'attention_forward', sizes));

  it('does not see later positions', () => {
    using bench = new TensorBench(device());
    const sizes = { B: 1, T: 40, C: 32, NH: 2 };
    const { out, lse } = setUp(bench, sizes);
    const values = new Random(5).normals(40 * 96);
    const qkv = bench.tensor('qkv', [1, 40, 96], values);
    attentionForward(device(), { out, lse, qkv, first: null });
    const before = floats(out).slice(0, 20 * 32);
    qkv.write(Float32Array.from(values, (value, index) => (index < 20 * 96 ? value : value * -3)));
    attentionForward(device(), { out, lse, qkv, first: null });
    expect(floats(out).slice(0, 20 * 32)).toEqual(before);
  });

  it('stays finite where scores are large', () => {
    using bench = new TensorBench(device());
    const sizes = { B: 1, T: 9, C: 16, NH: 1 };
    const { out, lse, dqkv } = setUp(bench, sizes);
    const qkv = bench.tensor('qkv', [1, 9, 48], new Random(6).normals(9 * 48, 60));
    const dout = bench.tensor('dout', [1, 9, 16], new Random(7).normals(9 * 16));
    attentionForward(device(), { out, lse, qkv, first: null });
    attentionBackward(device(), { dqkv, dout, out, qkv, lse, first: null });
    expect([...floats(out), ...floats(lse), ...floats(dqkv)].every(Number.isFinite)).toBe(true);
  });
});
