import { groupsOf } from '../../native/element-types.ts';
import { held, norm } from './case-numbers.ts';
import { columnwise, e4m3Deviation, exact, largestOfBlocks, perRow, scaled, scaledColumnwise } from './fp8.ts';
import { casesOf, sizesOf } from './op-case.ts';

export const fp8TransposeCases = [
  casesOf('fp8_transpose', {
    sizes: sizesOf('N C', '1024x128 1x16 7x48 8x32 513x80 1102x208 34x1600'),
    gpuSizes: sizesOf('N C', '4097x768 65523x48'),
    scale: () => ({ values: e4m3Deviation }),
    // Scales of rows from 1 to 2^-23. With the largest scale of their block, many values become zero.
    inputs({ values }, { N, C }, random) {
      const scale = Float32Array.from(random.integers(N!, 24), (power) => 2 ** -power);
      return { scale, norm: perRow(scaled(values, scale), C!, norm) };
    },
    formula({ values, scale, norm: norms }, { N, C }: Readonly<Record<'N' | 'C', number>>) {
      const scales = largestOfBlocks(scale);
      const groups = groupsOf(N);
      const elements = columnwise(scaled(values, scale), N, C);
      const inverses = scales.map((one) => 1 / one);
      const rounded = held('fp8', scaledColumnwise(elements, inverses, groups));
      const copy = scaledColumnwise(rounded, scales, groups);
      return { columnwise: copy, columnwiseScale: scales, columnwiseNorm: largestOfBlocks(norms) };
    },
    bounds: () => ({ columnwise: exact, columnwiseScale: exact, columnwiseNorm: exact }),
  }),
];
