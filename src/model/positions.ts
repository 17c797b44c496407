// Positions of tokens: GPT-2 adds a learned table (wpe) to the embedding; a rotary model rotates each head's queries and keys
// (Su et al. 2021). The same op may normalize queries and keys first (QK-norm).
import type { Device } from '../native/device.ts';
import { allocateTensor, type Tensor } from '../native/tensor.ts';
import { qkNormRotaryBackward, qkNormRotaryForward } from '../ops/ops.generated.ts';
import { architectureOf } from './architecture.ts';
import type { ModelConfig } from './config.ts';
import { rmsnormEps } from './norm.ts';

const changesQueries = (config: ModelConfig): boolean => {
  const { positions, queryKeyNorm, valueEmbeddings = 0 } = architectureOf(config);
  return positions === 'rotary' || queryKeyNorm === 'rmsnorm' || valueEmbeddings > 0;
};

const headSize = ({ channels, heads }: ModelConfig): number => channels / heads;

/** The slowest rotation is 1 / base radians per position. */
const defaultBase = 1024;

/**
 * Cosines and sines of a position's angles, [context, head size]. Half of a head's pairs rotate at rates from 1 to 1 / base radians
 * per position. The others do not rotate, for content that is independent of position (half-truncated, docs/recipe.md).
 */
function rotations(config: ModelConfig): Float32Array {
  const pairs = headSize(config) / 2;
  const { positions, rotaryBase } = architectureOf(config);
  const rotating = positions === 'rotary' ? pairs / 2 : 0;
  const table = new Float32Array(config.context * 2 * pairs);
  for (let pair = 0; pair < pairs; pair++) {
    const exponent = rotating > 1 ? pair / (rotating - 1) : 0;
    const rate = pair < rotating ? (rotaryBase || defaultBase) ** -exponent : 0;
    for (let position = 0; position < config.context; position++) {
      const at = position * 2 * pairs + pair;
      table[at] = Math.cos(position * rate);
      table[at + pairs] = Math.sin(position * rate);
    }
  }
  return table;
}

export interface ValueMix {
  /** Factor of the values, factor of the embedding: [2]. */
  readonly factors: Tensor;
  /** The values before the mix, [B,T,C]. */
  readonly values: Tensor;
  /** [B,T,C]; null: the values are only multiplied by their factor. */
  readonly embedded: Tensor | null;
}

type Backward = Parameters<typeof qkNormRotaryBackward>[1];
/** Gradients of the mix; `dembedded`: memory for the gradient of `embedded`. */
type ValueGradients = Pick<Backward, 'dvalueFactors' | 'dembedded' | 'accumulate'>;

export type QueryKeyTransform = NonNullable<ReturnType<typeof queryKeyTransformOf>>;

/**
 * Rotates queries and keys before attention, and normalizes them first if the model has a norm for them. Allocates the table of
 * rotations. @returns undefined for a model that does not change queries and keys
 */
export function queryKeyTransformOf(device: Device, config: ModelConfig) {
  if (!changesQueries(config)) return undefined;
  const { attentionScale } = architectureOf(config);
  const table = allocateTensor(device, 'rotations', 'fp32', [config.context, headSize(config)]);
  table.write(rotations(config));
  // Attention multiplies by 1 / sqrt(head size).
  const queryFactor = attentionScale === 0 ? 1 : attentionScale * Math.sqrt(headSize(config));
  const shared = { rotations: table, NH: config.heads, queryFactor };
  return {
    /** @param positions of the first token of each sequence; undefined: all begin at 0 */
    forward(qkv: Tensor, rstd: Tensor | undefined, mix: ValueMix | undefined, positions?: Tensor): void {
      const tensors = { qkv, rstd: rstd ?? null, positions: positions ?? null };
      qkNormRotaryForward(device, { ...tensors, ...argumentsOf(mix), ...shared, eps: rmsnormEps });
    },
    /** @param qkv as `forward` left it, like rstd and mix.values */
    backward(
      dqkv: Tensor,
      { qkv, rstd, mix }: { qkv: Tensor; rstd: Tensor | undefined; mix: ValueMix | undefined },
      { dvalueFactors = null, dembedded = null, accumulate = false }: Partial<ValueGradients>,
    ): void {
      const gradients = { dvalueFactors, dembedded: mix?.embedded ? dembedded : null };
      const tensors = { dqkv, ...gradients, qkv, rstd: rstd ?? null };
      qkNormRotaryBackward(device, { ...tensors, ...argumentsOf(mix), ...shared, accumulate });
    },
  };
}

/** The op's arguments for the values; without a mix they stay as they are. */
const argumentsOf = (mix: ValueMix | undefined) =>
  mix
    ? { valueFactors: mix.factors, values: mix.values, embedded: mix.embedded }
    : { valueFactors: null, values: null, embedded: null };
