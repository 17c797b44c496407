// Both forms against the formula in double: one row, which a kernel of its own may take, several, and sizes that no vector takes.
import { expect, it } from 'vitest';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import { floats, held, Random, relativeError, worstError } from '../../src/ops/cases/case-numbers.ts';
import { normMatmulForward, normMatmulScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

/** Of fp32: sums of up to 3072 terms. Of bf16: the results are rounded, with several rows the normalised rows as well. */
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
    ])('%j', ({ N, C, O }) => {
      using bench = new TensorBench(device());
      const random = new Random(C);
      const type = device().elementType;
      const given = (name: string, shape: number[], scale: number, offset = 0) => {
        const count = shape.reduce((product, size) => product * size, 1);
        const values = held(
          type,
          random.normals(count, scale).map((value) => value + offset),
        );
        return { tensor: bench.tensor(name, shape, values), values };
      };
      const input = given('in', [N, C], 2, 1);
      const [normWeight, normBias] = [given('norm_weight', [C], 0.2, 1), given('norm_bias', [C], 0.3)];
      const [weight, bias] = [given('weight', [O, C], 0.05), given('bias', [O], 0.5)];
      device().reserveWorkspace(normMatmulScratch(device(), { N, C, O }));
      const tensors = {
        in: input.tensor,
        normWeight: normWeight.tensor,
        normBias: normBias.tensor,
        weight: weight.tensor,
      };

      const product = (withBias: boolean) =>
        Float64Array.from({ length: N * O }, (__, at) => {
          const row = input.values.subarray(Math.floor(at / O) * C, (Math.floor(at / O) + 1) * C);
          const o = at % O;
          const mean = row.reduce((sum, x) => sum + x, 0) / C;
          const rstd = 1 / Math.sqrt(row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / C + 1e-5);
          let sum = withBias ? bias.values[o]! : 0;
          for (let c = 0; c < C; c++) {
            const normal = (row[c]! - mean) * rstd * normWeight.values[c]! + normBias.values[c]!;
            sum += normal * weight.values[o * C + c]!;
          }
          return sum;
        });
      const expectNear = (name: string, values: Float32Array, wanted: Float64Array) => {
        const [relative, worst] = [relativeError(values, wanted), worstError(values, wanted)];
        expect(relative < bounds[dtype] && worst < 4 * bounds[dtype], `${name}: ${relative}, ${worst}`).toBe(true);
      };

      const out = bench.tensor('out', [N, O]);
      normMatmulForward(device(), { out, ...tensors, bias: null, ...plain });
      expectNear('out without bias', floats(out), product(false));
      normMatmulForward(device(), { out, ...tensors, bias: bias.tensor, ...plain });
      expectNear('out', floats(out), product(true));

      const [gelu, pre] = [bench.tensor('gelu', [N, O]), bench.tensor('pre', [N, O])];
      normMatmulForward(device(), { out: gelu, pre, ...tensors, bias: bias.tensor, activation: GPT2_GELU });
      const wanted = product(true);
      expectNear('pre', floats(pre), wanted);
      const ofGelu = wanted.map((x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))));
      expectNear('gelu', floats(gelu), ofGelu);
      bench.checkGuards();
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
  { dtypes: ['fp32', 'bf16'] },
);
