// The optimizer Muon (Jordan 2024): a matrix's update is its momentum, made orthogonal by a Newton-Schulz iteration.
import { checkGiven, factor, real, whole } from '../base/checks/given.ts';
import type { Selection } from '../model/arena.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  muonMomentum,
  muonUpdate,
  newtonSchulz,
  newtonSchulzScratch,
  normalizeMatrices,
} from '../ops/ops.generated.ts';
import { type Iteration, type IterationName, iterationNames, iterations } from './newton-schulz.ts';
import type { MatrixShape, Optimizer, StateRow, UpdateContext, UpdatePart } from './optimizer.ts';

/** Defaults of Muon's options. The learning rate is Jordan's (2024) for GPT-2. */
export const muonDefaults = { learningRate: 0.02, momentum: 0.95, newtonSchulz: 'polar-express' } as const;
/** Momentum in the first step, if `momentumWarmup` is not 0. */
const firstMomentum = 0.85;
/** Limits of Muon's options. With momentum 1, the average of gradients would stay 0. */
export const muonRanges = {
  momentum: real(0, 0.999999),
  momentumWarmup: whole(0),
  newtonSchulz: iterationNames,
} as const;

/** Added to the Frobenius norm by which a matrix is divided, because the norm may be 0. */
const eps = 1e-7;

export interface MuonOptions {
  /** Muon's learning rate as a multiple of the learning rate in the step block. */
  readonly rate: number;
  readonly weightDecay: number;
  /** The factor of the old average of gradients in the new average. Default 0.95. */
  readonly momentum?: number | undefined;
  /** Steps over which the momentum rises linearly from 0.85 to `momentum`. Default 0: the momentum is constant. */
  readonly momentumWarmup?: number | undefined;
  readonly newtonSchulz?: IterationName | undefined;
}

/**
 * Selects the matrices of the transformer blocks, which Muon is designed for.
 * @example const blockMatrices = parameterTable(config).filter(isBlockMatrix);
 */
export const isBlockMatrix: Selection = ({ kind, name }) => kind === 'matrix' && name.startsWith('h.');

/** Groups matrices of equal size R x K, R <= K, into batches of at most `elements` elements. A tall matrix counts as transposed. */
function batchesOf<Matrix>(matrices: readonly Matrix[], shapeOf: (matrix: Matrix) => MatrixShape, elements: number) {
  const byShape = new Map<string, { R: number; K: number; matrices: Matrix[] }>();
  for (const matrix of matrices) {
    const [R, K] = [...shapeOf(matrix)].sort((a, b) => a - b) as [number, number];
    const same = byShape.get(`${R} x ${K}`) ?? { R, K, matrices: [] };
    same.matrices.push(matrix);
    byShape.set(`${R} x ${K}`, same);
  }
  return [...byShape.values()].flatMap(({ R, K, matrices }) => {
    const together = Math.max(1, Math.floor(elements / (R * K)));
    return Array.from({ length: Math.ceil(matrices.length / together) }, (_, index) => {
      return { R, K, matrices: matrices.slice(index * together, (index + 1) * together) };
    });
  });
}

const shapeOf = ({ weight }: UpdatePart) => weight.shape as MatrixShape;

/** Size, in elements, of each of the iteration's two scratch buffers: rounded up to 32 elements, which are 64 bytes in bf16. */
const halfOf = (elements: number): number => Math.ceil(elements / 32) * 32;

/**
 * Muon, by default with momentum 0.95 and the polar-express iteration. Muon updates matrices only, and is designed for the matrices
 * of the transformer blocks. `rate` multiplies the learning rate in the step block.
 * @throws UsageError for an option out of range
 * @example
 * const adamw = new AdamW({ weightDecay: 0.1 });
 * const muon = new Muon({ rate: 0.02 / 3e-4, weightDecay: 0.1 });
 * new Trainer(model, {
 *   ...{ batch: 4, sequence: 64, accumulation: 1, gradientClip: 1 },
 *   optimizer: (parameter) => (isBlockMatrix(parameter) ? muon : adamw),
 * });
 */
export class Muon implements Optimizer {
  readonly name = 'muon';
  readonly accepts: Selection = ({ kind }) => kind === 'matrix';
  readonly rows: readonly StateRow[] = [
    { name: 'momentum', dtype: 'fp32', parameters: this.accepts, granularity: 'matrix' },
  ];
  readonly scalars: Optimizer['scalars'];
  readonly #update: { readonly rate: number; readonly weightDecay: number };
  readonly #iteration: Iteration;
  readonly #batchElements: number;

  /** @param batchElements the most elements in a batch of matrices; the two scratch buffers take 4 bytes per element in bf16 */
  constructor(options: MuonOptions, batchElements = 2 ** 26) {
    checkGiven(options, { rate: factor, weightDecay: real(0) }, muonRanges);
    const { momentum = muonDefaults.momentum, momentumWarmup: warmup = 0, ...others } = options;
    const { newtonSchulz: name = muonDefaults.newtonSchulz, ...update } = others;
    this.#update = update;
    const at = (step: number) => {
      const share = step < warmup ? step / warmup : 1;
      return (1 - share) * firstMomentum + share * momentum;
    };
    this.scalars = [{ name: 'momentum', at }];
    this.#iteration = iterations[name];
    this.#batchElements = batchElements;
  }

  scratch(device: Device, shapes: readonly MatrixShape[]): number {
    const elements = batchesOf(shapes, (shape) => shape, this.#batchElements).map(
      ({ R, K, matrices: { length: M } }) => {
        device.reserveWorkspace(newtonSchulzScratch(device, { M, R, K }));
        return 2 * halfOf(M * R * K);
      },
    );
    return Math.max(0, ...elements);
  }

  enqueue({ device, step, scalar, scratch }: UpdateContext, parts: readonly UpdatePart[]): void {
    const { steps, margin } = this.#iteration;
    for (const { R, K, matrices } of batchesOf(parts, shapeOf, this.#batchElements)) {
      const M = matrices.length;
      let [now, next] = [0, halfOf(M * R * K)].map((start) => scratch!.view([M, R, K], start)) as [Tensor, Tensor];
      const direction = (index: number) => now.view(matrices[index]!.weight.shape, index * R * K);
      for (const [index, { gradient, state }] of matrices.entries()) {
        const momentum = state.momentum!;
        muonMomentum(device, { direction: direction(index), momentum, gradient, step, scalar: scalar('momentum') });
      }
      normalizeMatrices(device, { matrices: now, margin, eps });
      for (const [a, b, c] of steps) {
        newtonSchulz(device, { out: next, in: now, a, b, c });
        [now, next] = [next, now];
      }
      for (const [index, { weight, master }] of matrices.entries()) {
        muonUpdate(device, { weight, master, direction: direction(index), step, ...this.#update });
      }
    }
  }
}
