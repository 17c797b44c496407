import { inFp8 } from './norm.ts';
import { casesOf, sizesOf, storedInElements, sumInFp32 } from './op-case.ts';

type Sizes = Readonly<Record<'N' | 'C', number>>;

const sizes = sizesOf('N C', '128x128 7x37 1x1 3000x96');

const backwardCases = casesOf('stream_sum_backward', {
  sizes,
  formula({ dout, later, laterFactors, in: x, skip, embedded, factors }, { N, C }: Sizes) {
    const [a, b, c] = factors as unknown as [number, number, number];
    const ofLater = laterFactors ? laterFactors[0]! * laterFactors[2]! : 0;
    const [din, dembedded, dfactors] = [new Float64Array(N * C), new Float64Array(N * C), new Float64Array(3)];
    dout.forEach((d, at) => {
      const other = skip?.[at] ?? 0;
      din[at] = a * d + ofLater * (later?.[at] ?? 0);
      dembedded[at] = b * d;
      dfactors[0]! += d * (x[at]! + c * other);
      dfactors[1]! += d * embedded[at]!;
      dfactors[2]! += a * d * other;
    });
    return { din, dembedded, dfactors };
  },
  // Gradients of the factors are sums over all elements: in fp32 on a GPU, in double on a CPU.
  bounds: () => ({ din: storedInElements, dembedded: storedInElements, dfactors: sumInFp32 }),
});

export const streamSumCases = [
  casesOf('stream_sum_forward', {
    sizes,
    formula: ({ in: x, skip, embedded, factors: [a, b, c] }) => ({
      out: new Float64Array(x).map((value, at) => a! * (value + c! * (skip?.[at] ?? 0)) + b! * embedded[at]!),
    }),
    bounds: () => ({ out: storedInElements }),
  }),
  backwardCases,
  inFp8(backwardCases, 'din', 'stream_sum_backward.fp8'),
];
