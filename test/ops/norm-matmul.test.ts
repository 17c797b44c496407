// Both forms against the formula in double: one row, which a kernel of its own may take, several, and sizes that no vector takes.
import { expect, it } from 'vitest';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import { normMatmulForward } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { expectFormula, TensorBench } from '../support/tensors.ts';

/** fp32: sums of up to 3072 terms. bf16: the results are rounded, with several rows the normalised rows as well. */
const bounds = { fp32: 2e-6, tf32: 2e-3, bf16: 4e-3 };

const { GPT2_NO_ACTIVATION, GPT2_GELU } = GPT2_ACTIVATION;
const plain = { pre: null, activation: GPT2_NO_ACTIVATION };

describeBackends(
  'a matmul behind its layernorm',
  (device, _, dtype) => {
    it.each([
      { N: 1, C: 768, O: 2304 },
      { N: 1, C: 1600, O: 200 },
      { N: 1, C: 64, O: 9 },
      { N: 1, C: 37, O: 24 },
      // Longer than a warp holds.
      { N: 1, C: 3072, O: 40 },
      { N: 5, C: 768, O: 72 },
      { N: 40, C: 80, O: 64 },
    ])('%j', async (sizes) => {
      const limit = bounds[dtype];
      await expectFormula(device(), 'norm_matmul_forward', sizes, limit, 4 * limit);
      await expectFormula(device(), 'norm_matmul_forward.gelu', sizes, limit, 4 * limit);
    });

    it('refuses shapes that do not go together, by name', () => {
      using bench = new TensorBench(device());
      const of = (...shape: number[]) => bench.tensor('tensor', shape);
      const given = { in: of(2, 8), normWeight: of(8), normBias: of(8), weight: of(16, 8), bias: null };
      expect(() => normMatmulForward(device(), { ...given, out: of(2, 8), ...plain })).toThrow(
        'norm_matmul_forward: out [N,O] has O = 8, but weight has O = 16',
      );
      const withPre = { ...given, out: of(2, 16), pre: of(3, 16) };
      expect(() => normMatmulForward(device(), { ...withPre, activation: GPT2_GELU })).toThrow('N = 3');
    });
  },
  // In bf16 the CPU library rounds a single normalised row, too, which the bounds do not expect; every-op-bf16 tests it.
  { dtypes: ['fp32', 'bf16'], cpuDtypes: ['fp32'] },
);
