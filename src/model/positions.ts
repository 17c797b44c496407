// Changes of queries, keys and values before attention: rotary positions rotate each head's queries and keys (Su et al. 2021; GPT-2
// instead adds a learned table, wpe), QK-norm normalizes them first, and value embeddings are mixed into values. One op does all this.
import type { Device } from '../native/device.ts';
import { allocateTensor, type Tensor } from '../native/tensor.ts';
import { qkNormRotaryBackward, qkNormRotaryForward } from '../ops/ops.generated.ts';
import { architectureOf } from './architecture.ts';
import type { ModelConfig } from './config.ts';
import { rmsnormEps } from './norm.ts';

const headSize = ({ channels, heads }: ModelConfig): number => channels / heads;

/** The default base of rotary positions: the slowest rotation is 1 / base radians per position. */
const defaultBase = 1024;

/**
 * The table of rotations, [context, head size]: for each position the cosines, then the sines of its angles. Half of a head's pairs of
 * elements rotate, by angles from 1 to 1 / base radians per position. The other half does not rotate ("half-truncated", docs/recipe.md).
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
  /** Factors of the values and of the embedding in their sum: fp32 [2]. */
  readonly factors: Tensor;
  /** Attention's values before the value embedding is added, [B,T,C]. */
  readonly values: Tensor;
  /** The value embedding [B,T,C]; null in a layer without one, where the values are only multiplied by their factor. */
  readonly embedded: Tensor | null;
}

type Backward = Parameters<typeof qkNormRotaryBackward>[1];
/** Gradients of a `ValueMix`: `dvalueFactors` of `factors`, `dembedded` of `embedded`. */
type ValueGradients = Pick<Backward, 'dvalueFactors' | 'dembedded' | 'accumulate'>;

export type QueryKeyTransform = NonNullable<ReturnType<typeof queryKeyTransformOf>>;

/**
 * Allocates the table of rotations. @returns functions that enqueue the change of queries, keys and values before attention, and its
 * backward; undefined for a model without rotary positions, QK-norm and value embeddings
 */
export function queryKeyTransformOf(device: Device, config: ModelConfig) {
  const { positions, queryKeyNorm, valueEmbeddings = 0, attentionScale } = architectureOf(config);
  if (positions === 'learned' && queryKeyNorm === 'none' && valueEmbeddings === 0) return undefined;
  const table = allocateTensor(device, 'rotations', 'fp32', [config.context, headSize(config)]);
  table.write(rotations(config));
  // Attention itself multiplies by 1 / sqrt(head size), which this factor replaces by `attentionScale`.
  const queryFactor = attentionScale === 0 ? 1 : attentionScale * Math.sqrt(headSize(config));
  const shared = { rotations: table, NH: config.heads, queryFactor };
  return {
    /** Changes `qkv` in place. @param positions position of each sequence's first token; undefined if all are 0 */
    forward(qkv: Tensor, rstd: Tensor | undefined, mix: ValueMix | undefined, positions?: Tensor): void {
      const tensors = { qkv, rstd: rstd ?? null, positions: positions ?? null };
      qkNormRotaryForward(device, { ...tensors, ...argumentsOf(mix), ...shared, eps: rmsnormEps });
    },
    /** Changes `dqkv` in place. `qkv`, `rstd` and `mix.values` must be as `forward` left them. */
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

/** The op's arguments for values and value embeddings; with nulls the op leaves the values unchanged. */
const argumentsOf = (mix: ValueMix | undefined) =>
  mix
    ? { valueFactors: mix.factors, values: mix.values, embedded: mix.embedded }
    : { valueFactors: null, values: null, embedded: null };
