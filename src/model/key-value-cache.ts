// The cache of growing texts: the tokens, and for each layer the keys and values of all earlier tokens, so that a new token
// costs the work of one token. src/inference/sample chooses tokens.
import { checkArguments, checkGiven, whole } from '../base/checks/given.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import type { Device, PinnedBuffer } from '../native/device.ts';
import { bytesOf, elementCount } from '../native/element-types.ts';
import { Tensor } from '../native/tensor.ts';
import { attentionCachedScratch, matmulScratch, normMatmulScratch, sampleScratch } from '../ops/ops.generated.ts';
import { only, type Row } from './activation-tables.ts';
import { elementType } from './activations.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';
import type { Model } from './model.ts';

export interface CacheSizes {
  readonly texts: number;
  /** Tokens of a text that the model sees: at most its context. */
  readonly window: number;
}

/** The tensors of a cache. The first dimension is the texts; keys and values begin with [layers, texts]. */
function cacheTable(device: Device, config: ModelConfig, { texts, window }: CacheSizes) {
  const { layers, channels, heads } = config;
  const perHead = [texts, heads, window, channels / heads];
  return {
    keys: { type: 'activation', shape: [layers, ...perHead] },
    values: { type: 'activation', shape: [layers, ...perHead] },
    /** With room for the token after a full window. */
    tokens: { type: 'int32', shape: [texts, window + 1] },
    positions: { type: 'int32', shape: [texts] },
    seeds: { type: 'int32', shape: [texts] },
    /** The output of the MLP's activation and GELU's input, which in fp8 the model's activations do not have in bf16. */
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
  /** The output of the MLP's activation and its input, [2,rows,4C]; undefined if the model's activations have memory for them. */
  readonly mlp: Tensor | undefined;
  /** The keys and values of each layer, [texts,NH,window,HS]. */
  readonly layers: readonly { readonly keys: Tensor; readonly values: Tensor }[];
}

/** A copy in host memory, and the event that is reached when it has arrived. */
export interface TokenCopy {
  readonly pinned: PinnedBuffer;
  readonly event: Pointer;
}

/**
 * A cache for `texts` texts of up to `window` tokens. It closes with its device. The model's activations must hold one text of
 * `window` tokens, and one token of each text: B x T of at least max(texts, window).
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
  /** Copies of `tokens` to the host, two at a time. */
  readonly copies: readonly [TokenCopy, TokenCopy];
  /** Programs that generate one token, by the options of the choice. */
  readonly programs = new Map<string, { run(): void }>();
  isInUse = false;

  constructor(model: Model, sizes: CacheSizes) {
    checkArguments({ model });
    checkGiven(sizes, { texts: whole(1), window: whole(1, model.config.context) }, {});
    const { texts, window } = sizes;
    const { device, config } = model;
    const allocate = (name: string, row: Row): Tensor => {
      const type = elementType(row, device);
      const memory = device.allocate(elementCount(row.shape) * bytesOf(type), 'key-value cache');
      return new Tensor(memory, name, type, row.shape);
    };
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
