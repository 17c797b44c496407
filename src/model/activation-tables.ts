import { GPT2_FP8_FACTOR } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import { blocksOf, groupsOf } from '../native/element-types.ts';
import type { Tensor } from '../native/tensor.ts';
import { architectureOf, laterLayers } from './architecture.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';

/**
 * Activations that backward recomputes to save memory. `gelu`: the outputs of fc and of the activation, in GPT-2 half of a layer's
 * memory, at the cost of one more matmul. `block`: all but the residual stream between layers, at the cost of one more forward pass.
 */
export const recomputeNames = ['none', 'gelu', 'block'] as const;
export type Recompute = (typeof recomputeNames)[number];

/**
 * Tokens in a chunk: the head processes tokens in chunks, and memory holds the logits of one chunk. On a GPU each chunk reads and
 * writes all of wte's gradient, and must fill every SM, so chunks are large: 3.3 GB of logits for GPT-2's vocabulary in bf16.
 */
export function headChunk({ description, elementType }: Device): number {
  if (description.library === 'cpu') return 1024;
  return elementType === 'bf16' ? 32768 : 8192;
}

export interface Sizes {
  readonly B: number;
  readonly T: number;
}

/** The largest batch, B x T tokens, for which activations are allocated, and their purpose. */
export interface ActivationSizes extends Sizes {
  /** Training keeps the activations of every layer for backward. In inference all layers use the same memory. */
  readonly purpose: 'training' | 'inference';
  /** Activations that backward recomputes instead of keeping them. Default none. */
  readonly recompute?: Recompute | undefined;
}

/** Kinds of activations in a memory plan. All tensors of a kind are in one allocation. */
export type Kind = 'activations' | 'logits' | 'activation gradients' | 'FP8 copies';

/** A row of a table of activations: the type and shape of one tensor. */
export interface Row {
  readonly type: 'activation' | 'fp32' | 'fp8' | 'int8' | 'int32';
  readonly shape: readonly number[];
  readonly kind?: Kind;
  /** Whether the tensor overwrites the previous row's tensor, which is no longer needed when this tensor is written. */
  readonly sharesPrevious?: boolean;
  /** Whether backward computes the tensor again if the option --recompute is gelu. */
  readonly isRecomputed?: boolean;
  /** Whether each layer has separate memory for the tensor in inference too. */
  readonly isAlwaysKept?: boolean;
}

/** Rows by the tensor's name; undefined if the model does not have the tensor. */
type Table = Readonly<Record<string, Row | undefined>>;

const activation = (...shape: number[]): Row => ({ type: 'activation', shape });
const statistics = (...shape: number[]): Row => ({ type: 'fp32', shape });
const fp8 = (...shape: number[]): Row => ({ type: 'fp8', shape });
const columnwise = (B: number, T: number, C: number): Row => fp8(C, groupsOf(B * T), 16);
const ofBlocks = (B: number, T: number): Row => statistics(blocksOf(B * T));
/** The rows of a matrix in FP8: `name` for its values, `nameScale` for their scales. */
const scaled = <N extends string>(name: N, values: Row, scale: Row) =>
  ({ [name]: values, [`${name}Scale`]: scale }) as { readonly [K in N | `${N}Scale`]: Row };
/** The rows of `scaled`, and `nameNorm` for the L2 norms of the matrix's rows, or the largest norm in each block of rows. */
const normed = <N extends string>(name: N, values: Row, scale: Row) =>
  ({ ...scaled(name, values, scale), [`${name}Norm`]: scale }) as { readonly [K in N | `${N}Scale` | `${N}Norm`]: Row };
const factors = statistics(GPT2_FP8_FACTOR.GPT2_FP8_FACTORS);
const recomputed = (row: Row): Row => ({ ...row, isRecomputed: true });
const ofWeight = (row: Row): Row => ({ ...row, kind: 'FP8 copies' });

function layerTable(device: Device, config: ModelConfig, { B, T, purpose, recompute }: ActivationSizes) {
  const { channels: C, heads: NH } = config;
  const { norm, queryKeyNorm, activation: activated, skips, valueEmbeddings = 0 } = architectureOf(config);
  const isFp8 = device.dtype === 'fp8';
  return {
    /** The layer's input in a model with learned skips (streams.ts). */
    ...only(skips === 'learned', { stream: activation(B, T, C) }),
    ln1: activation(B, T, C),
    ...only(norm === 'layernorm', { ln1Mean: statistics(B, T) }),
    ln1Rstd: statistics(B, T),
    qkv: activation(B, T, 3 * C),
    ...only(queryKeyNorm === 'rmsnorm', { qkRstd: statistics(B, T, 2 * NH) }),
    /** Attention's values before a value embedding is mixed in. */
    ...only(valueEmbeddings > 0, { values: activation(B, T, C) }),
    attention: activation(B, T, C),
    lse: statistics(B, NH, T),
    residual2: activation(B, T, C),
    ...only(norm === 'layernorm', { ln2Mean: statistics(B, T) }),
    ln2Rstd: statistics(B, T),
    /** GELU's input; in dtype fp8 GELU's derivative, one byte an element. Absent for the squared ReLU, whose backward reads its output. */
    ...only(activated === 'gelu', {
      fc: recomputed(isFp8 ? { type: 'int8', shape: [B, T, 4 * C] } : activation(B, T, 4 * C)),
    }),
    /** The inputs of fc and fcproj. Absent in dtype fp8, where the MLP's matmuls read FP8 copies (docs/fp8.md). */
    ...only(!isFp8, { ln2: activation(B, T, C), activated: recomputed(activation(B, T, 4 * C)) }),
    ...only(isFp8 && activated === 'relu2', {
      /** The squared ReLU's output in FP8, from which backward computes the derivative. */
      ...scaled('activatedRowwise', recomputed(fp8(B, T, 4 * C)), recomputed(statistics(B, T))),
    }),
    ...only(isFp8 && purpose === 'training', {
      ...normed('ln2Columnwise', columnwise(B, T, C), ofBlocks(B, T)),
      ...scaled('activatedColumnwise', recomputed(columnwise(B, T, 4 * C)), recomputed(ofBlocks(B, T))),
    }),
    /** Transposed FP8 weights of the MLP for backward. In batches under Vp / 32 tokens, backward quantises them again, to save memory. */
    ...only(isFp8 && purpose === 'training' && 32 * B * T >= paddedVocabularySize(config), {
      fcTransposed: recomputed(ofWeight(fp8(C, 4 * C))),
      fcFactors: recomputed(ofWeight(factors)),
      // With --recompute block, backward quantises fcproj's weight again. Recomputing skips fcproj: layers would otherwise keep copies.
      ...only(recompute !== 'block', {
        fcprojTransposed: ofWeight(fp8(4 * C, C)),
        fcprojFactors: ofWeight(factors),
      }),
    }),
    residual3: { ...activation(B, T, C), isAlwaysKept: skips === 'learned' },
  } satisfies Table;
}

export const only = <T extends Table>(isIn: boolean, rows: T): Partial<T> => (isIn ? rows : {});

/** Whether each layer has separate memory for a tensor. */
function isKept(name: keyof ReturnType<typeof layerTable>, row: Row, { purpose, recompute }: ActivationSizes): boolean {
  if (purpose === 'inference') return row.isAlwaysKept ?? false;
  if (recompute === 'block') return name === 'residual3';
  return recompute !== 'gelu' || !row.isRecomputed;
}

function modelTable(device: Device, config: ModelConfig, { B, T }: Sizes) {
  const C = config.channels;
  const { norm, embeddingNorm, window, documentMask, valueEmbeddings = 0 } = architectureOf(config);
  const ids: Row = { type: 'int32', shape: [B, T] };
  return {
    tokens: ids,
    targets: ids,
    /** Position of the first key that each query attends to, in layers with the long and with the short window (mask.ts). */
    ...only(documentMask || window !== undefined, { firstLong: ids }),
    ...only(window !== undefined, { firstShort: ids }),
    /** The embedding before its RMSNorm, and 1 / RMS of each row. */
    ...only(embeddingNorm === 'rmsnorm', { unnormed: activation(B, T, C), embeddedRstd: statistics(B, T) }),
    /** The embedding, which is the residual stream before the first layer. */
    embedded: activation(B, T, C),
    ...only(valueEmbeddings > 0, { valueEmbedded: activation(valueEmbeddings, B, T, C) }),
    lnf: activation(B, T, C),
    ...only(norm === 'layernorm', { lnfMean: statistics(B, T) }),
    lnfRstd: statistics(B, T),
    /** The logits of a chunk of tokens; in training, overwritten by their gradient. */
    logits: { ...activation(Math.min(headChunk(device), B * T), paddedVocabularySize(config)), kind: 'logits' },
    losses: statistics(B, T),
  } satisfies Table;
}

function backwardTable(device: Device, config: ModelConfig, { B, T }: Sizes) {
  const C = config.channels;
  const isFp8 = device.dtype === 'fp8';
  const { skips } = architectureOf(config);
  const later = laterLayers(config.layers);
  return {
    /** With learned skips: the embedding's gradient, summed over layers; layers' input gradients for an earlier layer's backward. */
    ...only(skips === 'learned', { dembedded: activation(B, T, C) }),
    ...only(skips === 'learned' && later > 0, { dlater: activation(later, B, T, C) }),
    /** Gradient of the residual stream. */
    dresidual: activation(B, T, C),
    /** Gradient of any other tensor [B,T,C], such as the output of a norm or of attention. */
    dbranch: activation(B, T, C),
    dqkv: activation(B, T, 3 * C),
    ...only(!isFp8, { dfc: activation(B, T, 4 * C) }),
    ...only(isFp8, {
      /** `dresidual` in FP8. Not in the memory of `fp8Table`, which --recompute overwrites while these gradients are needed. */
      ...normed('dresidualRowwise', fp8(B, T, C), statistics(B, T)),
      ...normed('dresidualColumnwise', columnwise(B, T, C), ofBlocks(B, T)),
      ...scaled('dfcColumnwise', columnwise(B, T, 4 * C), ofBlocks(B, T)),
    }),
  } satisfies Table;
}

/** FP8 memory that all layers share: no layer reads the memory after the next layer has started to write it. */
function fp8Table(device: Device, config: ModelConfig, { B, T, purpose }: ActivationSizes) {
  const C = config.channels;
  const isGelu = architectureOf(config).activation === 'gelu';
  return only(device.dtype === 'fp8', {
    /** The output of any norm, for the next matmul. */
    ...normed('normRowwise', fp8(B, T, C), statistics(B, T)),
    /** In forward, GELU's output. In backward, which does not read GELU's output, dfc: the gradient of the activation's input. */
    ...only(isGelu || purpose === 'training', { mlpRowwise: fp8(B, T, 4 * C) }),
    /** The head's weight for the head's backward, which runs between the last layer's forward and backward. */
    ...only(purpose === 'training', {
      headTransposed: { ...fp8(C, paddedVocabularySize(config)), sharesPrevious: true },
    }),
    ...only(isGelu || purpose === 'training', { mlpRowwiseScale: statistics(B, T) }),
    /** The weight of the current matmul, in the size of the largest weight: the MLP's or the head's. */
    weight: fp8(Math.max(4 * C, paddedVocabularySize(config)), C),
    factors,
  });
}

const mapTable = <T extends Table, V>(table: T, make: (name: keyof T & string, row: Row) => V) => {
  const rows = Object.entries(table) as [keyof T & string, Row][];
  return Object.fromEntries(rows.map(([name, row]) => [name, make(name, row)])) as { readonly [K in keyof T]: V };
};

/** Calls `make` for each row of all tables. If layers do not keep a row's tensor separately, all layers share one result of `make`. */
export function mapTables<V extends object | number>(
  device: Device,
  config: ModelConfig,
  sizes: ActivationSizes,
  make: (name: string, row: Row, kind: Kind) => V,
) {
  const all = <T extends Table>(table: T, kind: Kind, prefix = '') =>
    mapTable(table, (name, row) => make(`${prefix}${name}`, row, row.kind ?? kind));
  const layer = layerTable(device, config, sizes);
  const ofLayer = (name: string, row: Row) => make(`h.${name}`, row, row.kind ?? 'activations');
  const shared = mapTable(layer, (name, row) => (isKept(name, row, sizes) ? undefined : ofLayer(name, row)));
  return {
    model: all(modelTable(device, config, sizes), 'activations'),
    layers: Array.from({ length: config.layers }, (_, index) =>
      mapTable(layer, (name, row) => shared[name] ?? ofLayer(`${index}.${name}`, row)),
    ),
    /** Gradients of activations; undefined in inference. */
    backward:
      sizes.purpose === 'training' ? all(backwardTable(device, config, sizes), 'activation gradients') : undefined,
    fp8: all(fp8Table(device, config, sizes), 'FP8 copies', 'fp8.'),
  };
}

/** A tensor for each row of the activation tables; undefined where the model does not have the tensor. */
export type ActivationTensors = ReturnType<typeof mapTables<Tensor>>;
