// The key-value cache for generation: the tokens of each text, and each layer's keys and values of the tokens so far, so that the model
// computes only new tokens. src/inference/sample chooses tokens.
import { checkArguments, checkGiven, whole } from '../base/checks/given.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import type { Device, PinnedBuffer } from '../native/device.ts';
import { elementCount } from '../native/element-types.ts';
import { allocateTensor, type Tensor } from '../native/tensor.ts';
import { attentionCachedScratch, matmulScratch, normMatmulScratch, sampleScratch } from '../ops/ops.generated.ts';
import { only, type Row } from './activation-tables.ts';
import { elementType } from './activations.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';
import type { Model } from './model.ts';

export interface CacheSizes {
  readonly texts: number;
  /** The most tokens of a text that the cache holds; at most the model's context. */
  readonly window: number;
}

/** Types and shapes of a cache's tensors. The first dimension is the text; keys and values begin with [layers, texts]. */
function cacheTable(device: Device, config: ModelConfig, { texts, window }: CacheSizes) {
  const { layers, channels, heads } = config;
  const perHead = [texts, heads, window, channels / heads];
  return {
    keys: { type: 'activation', shape: [layers, ...perHead] },
    values: { type: 'activation', shape: [layers, ...perHead] },
    /** Token ids of each text, with room for one token after a full window. */
    tokens: { type: 'int32', shape: [texts, window + 1] },
    positions: { type: 'int32', shape: [texts] },
    seeds: { type: 'int32', shape: [texts] },
    /** Output and input of the MLP's activation. Only in dtype fp8, where the model's activations hold both in one byte an element. */
    ...only(device.dtype === 'fp8', {
      mlp: { type: 'activation', shape: [2, Math.max(texts, window), 4 * channels] },
    }),
  } satisfies Record<string, Row | undefined>;
}

function decodeScratch(device: Device, config: ModelConfig, { texts, window }: CacheSizes): number {
  const { channels: C, vocabularySize: V } = config;
  const rows = Math.max(texts, window);
  return Math.max(
    attentionCachedScratch(device, { S: window }),
    normMatmulScratch(device, { N: rows, C, O: 3 * C }),
    normMatmulScratch(device, { N: rows, C, O: 4 * C }),
    normMatmulScratch(device, { N: texts, C, O: paddedVocabularySize(config) }),
    matmulScratch(device, { N: texts, C, O: paddedVocabularySize(config), gradients: false }),
    sampleScratch(device, { B: texts, V }),
  );
}

export interface CacheView {
  readonly tokens: Tensor;
  readonly positions: Tensor;
  readonly seeds: Tensor;
  /** Output and input of the MLP's activation, [2,rows,4C]; undefined if the model's activations have memory for both. */
  readonly mlp: Tensor | undefined;
  /** Keys and values of each layer, both [texts,NH,window,HS]. */
  readonly layers: readonly { readonly keys: Tensor; readonly values: Tensor }[];
}

/** Host memory for a copy of the tokens, and the event that is reached when the copy has arrived. */
export interface TokenCopy {
  readonly pinned: PinnedBuffer;
  readonly event: Pointer;
}

/**
 * A key-value cache for `texts` texts of up to `window` tokens; its memory is freed with the device. The model must have been created
 * for B x T of at least max(texts, window), because its activations hold one text of `window` tokens, or one token of each text.
 * @throws UsageError for a window over the model's context; NativeError if the device has too little memory
 * @example const cache = new KeyValueCache(model, { texts: 2, window: 32 });
 */
export class KeyValueCache implements CacheView {
  readonly model: Model;
  readonly texts: number;
  readonly window: number;
  readonly tokens: Tensor;
  readonly positions: Tensor;
  readonly seeds: Tensor;
  readonly mlp: Tensor | undefined;
  readonly layers: CacheView['layers'];
  /** Memory for two copies of `tokens` on the host, so that one can be read while the other arrives. */
  readonly copies: readonly [TokenCopy, TokenCopy];
  /** Recorded programs that generate one token of each text, by the options for choosing the token. */
  readonly programs = new Map<string, { run(): void }>();
  isInUse = false;

  constructor(model: Model, sizes: CacheSizes) {
    checkArguments({ model });
    checkGiven(sizes, { texts: whole(1), window: whole(1, model.config.context) }, {});
    const { texts, window } = sizes;
    const { device, config } = model;
    const allocate = (name: string, row: Row): Tensor =>
      allocateTensor(device, 'key-value cache', elementType(row, device), row.shape).view(row.shape, 0, name);
    const { keys, values, tokens, positions, seeds, mlp } = cacheTable(device, config, { texts, window });
    const [allKeys, allValues] = [allocate('keys', keys), allocate('values', values)];
    const ofLayer = (tensor: Tensor, layer: number) => {
      const shape = tensor.shape.slice(1);
      return tensor.view(shape, layer * elementCount(shape), `h.${layer}.${tensor.name}`);
    };
    this.model = model;
    this.texts = texts;
    this.window = window;
    this.tokens = allocate('tokens', tokens);
    this.positions = allocate('positions', positions);
    this.seeds = allocate('seeds', seeds);
    this.mlp = mlp && allocate('mlp', mlp);
    this.layers = Array.from({ length: config.layers }, (_, layer) => ({
      keys: ofLayer(allKeys, layer),
      values: ofLayer(allValues, layer),
    }));
    const copy = () => ({ pinned: device.allocatePinned(this.tokens.bytes), event: device.createEvent() });
    this.copies = [copy(), copy()];
    device.reserveWorkspace(decodeScratch(device, config, { texts, window }));
  }

  text(index: number): CacheView {
    const part = (tensor: Tensor) => {
      const shape = [1, ...tensor.shape.slice(1)];
      return tensor.view(shape, index * elementCount(shape));
    };
    return {
      tokens: part(this.tokens),
      positions: part(this.positions),
      seeds: part(this.seeds),
      mlp: this.mlp,
      layers: this.layers.map(({ keys, values }) => ({ keys: part(keys), values: part(values) })),
    };
  }
}
