// What a model remembers of texts in the making: for each layer the keys and values of all tokens it has run, and the tokens
// themselves, so that a new token costs one token's work. Which token comes next is chosen in src/sample.
import type { Pointer } from '../native/bindings.generated.ts';
import { bytesOf, type ElementType, elementCount, type PinnedBuffer, Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { attentionCachedScratch, layernormMatmulScratch, sampleScratch } from '../ops/ops.generated.ts';
import type { DeviceTraits } from './activations.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';
import type { Model } from './model.ts';

export interface CacheSizes {
  /** Texts at a time. */
  readonly texts: number;
  /** Tokens of a text that the model sees: no more than its context. */
  readonly window: number;
}

interface Row {
  readonly type: 'activation' | 'int32';
  readonly shape: readonly number[];
}

/** THE table of a cache. Every tensor's first dimension is the texts, [layers, texts] of keys and values. */
function cacheTable({ layers, channels, heads }: ModelConfig, { texts, window }: CacheSizes) {
  const perHead = [texts, heads, window, channels / heads];
  return {
    keys: { type: 'activation', shape: [layers, ...perHead] },
    values: { type: 'activation', shape: [layers, ...perHead] },
    /** With room for the choice behind a full window. */
    tokens: { type: 'int32', shape: [texts, window + 1] },
    /** Where each text's next tokens stand. */
    positions: { type: 'int32', shape: [texts] },
    /** Of each text's choices. */
    seeds: { type: 'int32', shape: [texts] },
  } satisfies Record<string, Row>;
}

const typeOf = ({ type }: Row, device: DeviceTraits): ElementType =>
  type === 'activation' ? device.elementType : type;

/** Planned bytes of a cache. */
export const cacheBytes = (device: DeviceTraits, config: ModelConfig, sizes: CacheSizes): number =>
  Object.values(cacheTable(config, sizes)).reduce(
    (sum, row) => sum + elementCount(row.shape) * bytesOf(typeOf(row, device)),
    0,
  );

/** Bytes of workspace that decoding needs beyond what the model's own ops do, and choosing. */
export function decodeScratch(device: Device, config: ModelConfig, { texts, window }: CacheSizes): number {
  const { channels: C, vocabularySize: V } = config;
  const rows = Math.max(texts, window);
  return Math.max(
    attentionCachedScratch(device, { S: window }),
    layernormMatmulScratch(device, { N: rows, C, O: 3 * C }),
    layernormMatmulScratch(device, { N: rows, C, O: 4 * C }),
    layernormMatmulScratch(device, { N: texts, C, O: paddedVocabularySize(config) }),
    sampleScratch(device, { B: texts, V }),
  );
}

/** A cache, or the part of it that is one text's. */
export interface CacheView {
  readonly tokens: Tensor;
  readonly positions: Tensor;
  readonly seeds: Tensor;
  /** Each layer's [texts,NH,window,HS]. */
  readonly layers: readonly { readonly keys: Tensor; readonly values: Tensor }[];
}

/** Host memory, and the event that is reached when the copy is there. */
export interface TokenCopy {
  readonly pinned: PinnedBuffer;
  readonly event: Pointer;
}

/** Memory for `texts` texts of `window` tokens. Closes with its device. */
export class KeyValueCache implements CacheView {
  readonly model: Model;
  readonly texts: number;
  readonly window: number;
  readonly tokens: Tensor;
  readonly positions: Tensor;
  readonly seeds: Tensor;
  readonly layers: CacheView['layers'];
  /** Copies of `tokens` on their way to the host, two at a time. */
  readonly copies: readonly [TokenCopy, TokenCopy];
  /** One token's ops as programs, by how tokens are chosen. */
  readonly programs = new Map<string, { run(): void }>();
  /** Whether a generation is using this cache. */
  isInUse = false;

  constructor(model: Model, { texts, window }: CacheSizes) {
    const { device, config } = model;
    const allocate = (name: string, row: Row): Tensor => {
      const type = typeOf(row, device);
      return new Tensor(
        device.allocate(elementCount(row.shape) * bytesOf(type), 'key-value cache'),
        name,
        type,
        row.shape,
      );
    };
    const { keys, values, tokens, positions, seeds } = cacheTable(config, { texts, window });
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
    this.layers = Array.from({ length: config.layers }, (_, layer) => ({
      keys: ofLayer(allKeys, layer),
      values: ofLayer(allValues, layer),
    }));
    const copy = () => ({ pinned: device.allocatePinned(this.tokens.bytes), event: device.createEvent() });
    this.copies = [copy(), copy()];
    device.reserveWorkspace(decodeScratch(device, config, { texts, window }));
  }

  /** One text's part. */
  text(index: number): CacheView {
    const part = (tensor: Tensor) => {
      const shape = [1, ...tensor.shape.slice(1)];
      return tensor.view(shape, index * elementCount(shape));
    };
    return {
      tokens: part(this.tokens),
      positions: part(this.positions),
      seeds: part(this.seeds),
      layers: this.layers.map(({ keys, values }) => ({ keys: part(keys), values: part(values) })),
    };
  }
}
