// Positions of tokens: GPT-2 adds a learned table (wpe) to the embedding; a rotary model rotates each head's queries and keys
// (Su et al. 2021). The same op may normalize queries and keys first (QK-norm).
import type { Device } from '../native/device.ts';
import { allocateTensor, type Tensor } from '../native/tensor.ts';
import { qkNormRotaryBackward, qkNormRotaryForward } from '../ops/ops.generated.ts';
import { architectureOf } from './architecture.ts';
import type { ModelConfig } from './config.ts';
import { rmsnormEps } from './norm.ts';

/** Whether queries and keys are changed before attention. */
const changesQueries = (config: ModelConfig): boolean => {
  const { positions, queryKeyNorm } = architectureOf(config);
  return positions === 'rotary' || queryKeyNorm === 'rmsnorm';
};

const headSize = ({ channels, heads }: ModelConfig): number => channels / heads;

/** The slowest rotation is 1 / rotaryBase radians per position. */
const rotaryBase = 1024;

/**
 * Cosines and sines of a position's angles, [context, head size]. Half of a head's pairs rotate at rates from 1 to 1/1024 radians
 * per position. The others do not rotate, for content that is independent of position (half-truncated, docs/recipe.md).
 */
function rotations(config: ModelConfig): Float32Array {
  const pairs = headSize(config) / 2;
  const rotating = architectureOf(config).positions === 'rotary' ? pairs / 2 : 0;
  const table = new Float32Array(config.context * 2 * pairs);
  for (let pair = 0; pair < pairs; pair++) {
    const exponent = rotating > 1 ? pair / (rotating - 1) : 0;
    const rate = pair < rotating ? rotaryBase ** -exponent : 0;
    for (let position = 0; position < config.context; position++) {
      const at = position * 2 * pairs + pair;
      table[at] = Math.cos(position * rate);
      table[at + pairs] = Math.sin(position * rate);
    }
  }
  return table;
}

/** Rotates queries and keys before attention, and normalizes them first if the model has a norm for them. */
export class QueryKeyTransform {
  readonly #device: Device;
  readonly #rotations: Tensor;
  /** Sizes and constants of the op. */
  readonly #shared: { readonly NH: number; readonly queryFactor: number };

  private constructor(device: Device, config: ModelConfig) {
    const { attentionScale } = architectureOf(config);
    this.#device = device;
    this.#rotations = allocateTensor(device, 'rotations', 'fp32', [config.context, headSize(config)]);
    this.#rotations.write(rotations(config));
    // Attention multiplies by 1 / sqrt(head size).
    const queryFactor = attentionScale === 0 ? 1 : attentionScale * Math.sqrt(headSize(config));
    this.#shared = { NH: config.heads, queryFactor };
  }

  /** Allocates the table of rotations. @returns undefined for a model that does not change queries and keys */
  static of(device: Device, config: ModelConfig): QueryKeyTransform | undefined {
    return changesQueries(config) ? new QueryKeyTransform(device, config) : undefined;
  }

  /** @param positions of the first token of each sequence; undefined: all begin at 0 */
  forward(qkv: Tensor, rstd: Tensor | undefined, positions?: Tensor): void {
    const tensors = { qkv, rstd: rstd ?? null, rotations: this.#rotations, positions: positions ?? null };
    qkNormRotaryForward(this.#device, { ...tensors, ...this.#shared, eps: rmsnormEps });
  }

  /** @param qkv as `forward` left it */
  backward(dqkv: Tensor, qkv: Tensor, rstd: Tensor | undefined): void {
    const tensors = { dqkv, qkv, rstd: rstd ?? null, rotations: this.#rotations };
    qkNormRotaryBackward(this.#device, { ...tensors, ...this.#shared });
  }
}
