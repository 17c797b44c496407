// Cases of the op that makes a columnwise copy of a matrix in FP8.
import { groupsOf } from '../ops/columnwise.ts';
import { contracts } from '../ops/ops.generated.ts';
import { blockScales, columnwise, e4m3Deviation, exact, scaled, scaledColumnwise } from './fp8.ts';
import { held } from './numbers.ts';
import { casesOf } from './op-case.ts';

type Sizes = Readonly<Record<'N' | 'C', number>>;

export const fp8TransposeCases = [
  casesOf(contracts.fp8Transpose, {
    sizes: [
      { N: 1024, C: 128 },
      { N: 1, C: 16 },
      { N: 7, C: 48 },
      { N: 513, C: 80 },
      { N: 1102, C: 208 },
      { N: 34, C: 1600 },
    ],
    gpuSizes: [
      { N: 4097, C: 768 },
      { N: 65_523, C: 48 },
    ],
    scale: () => ({ values: e4m3Deviation }),
    // From the largest of a block down to values that become zero.
    inputs: (_, { N }, random) => ({ scale: Float32Array.from(random.integers(N!, 24), (power) => 2 ** -power) }),
    formula({ values, scale }, { N, C }: Sizes) {
      const scales = blockScales(scale);
      const groups = groupsOf(N);
      const elements = columnwise(scaled(values, scale), N, C);
      const inverses = scales.map((one) => 1 / one);
      const rounded = held('fp8', scaledColumnwise(elements, inverses, groups));
      return { columnwise: scaledColumnwise(rounded, scales, groups), columnwiseScale: scales };
    },
    bounds: () => ({ columnwise: exact, columnwiseScale: exact }),
  }),
];
