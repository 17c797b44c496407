// The Newton-Schulz iterations with which Muon makes the singular values of a matrix equal: steps x -> a x + b x^3 + c x^5.
// docs/optimizers.md compares them.

/** A step of an iteration: the coefficients of x, x^3 and x^5. */
export type Polynomial = readonly [a: number, b: number, c: number];

export interface Iteration {
  readonly steps: readonly Polynomial[];
  /** Before the first step, the matrix is divided by its Frobenius norm times this factor. */
  readonly margin: number;
}

/** The safety factor of Polar Express: because of rounding, singular values may be larger than in theory by this factor. */
const safety = 1.01;

/** Replaces x by x / safety, so that a polynomial also suits singular values up to `safety` times as large. */
const safer = ([a, b, c]: Polynomial): Polynomial => [a / safety, b / safety ** 3, c / safety ** 5];

/** The published polynomials of Polar Express, one for each of five steps, which are optimal for singular values from 0.001 to 1. */
const polarExpress: readonly Polynomial[] = [
  [8.28721201814563, -23.595886519098837, 17.300387312530933],
  [4.107059111542203, -2.9478499167379106, 0.5448431082926601],
  [3.9486908534822946, -2.908902115962949, 0.5518191394370137],
  [3.3184196573706015, -2.488488024314874, 0.51004894012372],
  [2.300652019954817, -1.6689039845747493, 0.4188073119525673],
];

/** The iterations that --newton-schulz names. */
export const iterations = {
  /** Amsel et al. 2025 (arXiv 2505.16932), with five steps, as many as `quintic`. */
  'polar-express': { steps: polarExpress.map(safer), margin: safety },
  /** Jordan 2024: coefficients with the steepest slope at 0. Singular values end between 0.68 and 1.2 instead of at 1. */
  quintic: { steps: Array<Polynomial>(5).fill([3.4445, -4.775, 2.0315]), margin: 1 },
  /** Every step doubles small singular values; singular values of 1 stay 1. */
  cubic: { steps: Array<Polynomial>(12).fill([2, -1.5, 0.5]), margin: 1 },
} as const satisfies Record<string, Iteration>;

export type IterationName = keyof typeof iterations;
export const iterationNames = Object.keys(iterations) as readonly IterationName[];
