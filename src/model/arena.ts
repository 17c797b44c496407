// Memory for one value per parameter element: weights, gradients, optimizer state. Matrices and vectors have separate arenas:
// only matrices have bf16 gradients, and only matrices are divided between ranks.
import { ShapeError } from '../errors.ts';
import { bytesOf, type ElementType, elementCount, Tensor } from '../native/buffer.ts';
import { sharedBytes } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import type { ModelConfig } from './config.ts';
import { type Parameter, type ParameterKind, parameterTable, realCount } from './parameters.ts';

// Tensors start on a multiple of this many elements, 64 bytes in bf16. The gaps are zero, and every op keeps them zero.
const alignment = 32;

const upTo = (step: number, count: number): number => Math.ceil(count / step) * step;

/** A range of the matrix arena whose gradients are summed over ranks in one collective: the embeddings, or a few layers. */
export interface Bucket {
  /** First element. */
  readonly start: number;
  /** Elements, with the padding that makes them divisible into shares. */
  readonly count: number;
  /** Elements without that padding. */
  readonly used: number;
}

/** Offsets in an arena, in elements. */
export interface ArenaLayout {
  /** Start of each parameter in the arena of its kind. */
  readonly starts: ReadonlyMap<string, number>;
  /** The embeddings, then the layers in order, without gaps between buckets. */
  readonly buckets: readonly Bucket[];
  readonly sizes: Readonly<Record<ParameterKind, number>>;
}

/** Selects parameters of the table. */
export type Selection = (parameter: Parameter) => boolean;

export const everyParameter: Selection = () => true;

/**
 * @param shares number of equal, aligned parts that every bucket is divisible into
 * @param selected parameters that get memory. A bucket with one of them holds all of its parameters, so that a rank's part
 *   matches its part of the weights; other buckets are empty. Either all vectors get memory or none.
 */
export function arenaLayout(config: ModelConfig, shares = 1, selected: Selection = everyParameter): ArenaLayout {
  const next = { matrix: 0, vector: 0 };
  const starts = new Map<string, number>();
  const opened: { start: number; end: number }[] = [];
  const table = parameterTable(config);
  const placeOf = ({ kind, name }: Parameter) => (kind === 'vector' ? kind : bucketOf(config, name));
  const places = new Set(table.filter(selected).map(placeOf));
  for (const parameter of table) {
    const { name, kind, shape } = parameter;
    const place = placeOf(parameter);
    if (opened.length === place) {
      next.matrix = upTo(alignment * shares, next.matrix);
      opened.push({ start: next.matrix, end: next.matrix });
    }
    if (!places.has(place)) continue;
    starts.set(name, next[kind]);
    next[kind] += upTo(alignment, elementCount(shape));
    if (kind === 'matrix') opened.at(-1)!.end = next.matrix;
  }
  const buckets = opened.map(({ start, end }) => {
    const used = end - start;
    return { start, count: upTo(alignment * shares, used), used };
  });
  return { starts, buckets, sizes: { ...next, matrix: upTo(alignment * shares, next.matrix) } };
}

/** A sum over ranks of fewer elements spends most of its time on latency. */
const leastPerSum = 12_000_000;

/** Layers in a bucket. A backward pass has at least six buckets, so that only the last sum is not overlapped. */
export const layersInBucket = ({ layers, channels }: Pick<ModelConfig, 'layers' | 'channels'>): number =>
  Math.min(Math.ceil(layers / 6), Math.ceil(leastPerSum / (12 * channels * channels)));

/** Index of a matrix parameter's bucket. */
export function bucketOf(config: ModelConfig, name: string): number {
  const layer = /^h\.(\d+)\./.exec(name)?.[1];
  return layer === undefined ? 0 : Math.floor(Number(layer) / layersInBucket(config)) + 1;
}

/** Bytes of one copy of all parameters. */
export function parameterBytes(
  config: ModelConfig,
  matrixType: ElementType,
  vectorType: ElementType,
  shares = 1,
): number {
  const { matrix, vector } = arenaLayout(config, shares).sizes;
  return arenaBytes(matrix, 'matrix', matrixType, shares) + arenaBytes(vector, 'vector', vectorType, shares);
}

/** Ranks that divide matrices share this memory. */
function arenaBytes(count: number, kind: ParameterKind, type: ElementType, shares: number): number {
  const bytes = flatBytes(count, type);
  return shares > 1 && kind === 'matrix' ? sharedBytes(bytes) : bytes;
}

/** Bytes to allocate for `count` elements. A device allocates at least one. */
export const flatBytes = (count: number, type: ElementType): number => Math.max(count, 1) * bytesOf(type);

/** A part of a copy, and its start in the arena of its kind, in elements. */
export interface ArenaPart {
  readonly kind: ParameterKind;
  readonly start: number;
  readonly tensor: Tensor;
}

/** One value per element of some parameters: all on this device, or divided between ranks (shards.ts). */
export interface ParameterCopy {
  readonly layout: ArenaLayout;
  /** The layout without shares, which `parts` and checkpoints use. */
  readonly wholeLayout: ArenaLayout;
  /** The matrices that this device holds, as one vector, [count]. */
  readonly matrices: Tensor;
  /** All vectors as one, [count]. */
  readonly vectors: Tensor;
  /** The tensor of a parameter by its name in the table. */
  get(name: string): Tensor;
  /** Fills a parameter's real rows; padding rows become zero. @throws ShapeError unless there are `realCount` values */
  write(parameter: Parameter, values: Float32Array): void;
  /** A parameter's real rows. A copy that is divided between ranks throws: use `readWhole`. */
  read(parameter: Parameter): Float32Array;
  /**
   * A parameter's real rows, from any copy. It waits for other ranks without blocking the event loop; all ranks read the same
   * parameter together.
   * @throws NativeError if another rank ended before it sent its part
   */
  readWhole(parameter: Parameter): Promise<Float32Array>;
  /** The whole copy, in `wholeLayout`. A part is valid for work enqueued before the next part is requested. */
  parts(): Iterable<ArenaPart>;
}

/** @throws ShapeError unless there is a value for each element of a parameter's real rows */
export function checkCount(parameter: Parameter, values: Float32Array): void {
  const count = realCount(parameter);
  if (values.length !== count) throw new ShapeError(`${parameter.name} needs ${count} values, not ${values.length}`);
}

/** A copy that is entirely in one device's memory. */
export class ParameterArena implements ParameterCopy {
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly layout: ArenaLayout;
  readonly wholeLayout: ArenaLayout;
  readonly #tensors = new Map<string, Tensor>();

  constructor(
    device: Device,
    config: ModelConfig,
    name: string,
    matrixType: ElementType,
    vectorType: ElementType,
    shares = 1,
    selected = everyParameter,
  ) {
    this.layout = arenaLayout(config, shares, selected);
    this.wholeLayout = shares === 1 ? this.layout : arenaLayout(config, 1, selected);
    const { sizes, starts } = this.layout;
    const flat = (kind: ParameterKind, type: ElementType) => {
      const bytes = arenaBytes(sizes[kind], kind, type, shares);
      return new Tensor(device.allocate(bytes, name), `${name}.${kind}`, type, [sizes[kind]]);
    };
    this.matrices = flat('matrix', matrixType);
    this.vectors = flat('vector', vectorType);
    for (const parameter of parameterTable(config)) {
      const start = starts.get(parameter.name);
      if (start === undefined) continue;
      const arena = parameter.kind === 'matrix' ? this.matrices : this.vectors;
      this.#tensors.set(parameter.name, arena.view(parameter.shape, start, `${name}.${parameter.name}`));
    }
  }

  get(name: string): Tensor {
    const tensor = this.#tensors.get(name);
    if (!tensor) throw new Error(`${this.matrices.name} has no parameter ${name}`);
    return tensor;
  }

  write(parameter: Parameter, values: Float32Array): void {
    checkCount(parameter, values);
    const tensor = this.get(parameter.name);
    const padding = tensor.count - values.length;
    if (padding > 0) tensor.write(new Float32Array(padding), values.length);
    tensor.write(values);
  }

  read(parameter: Parameter): Float32Array {
    return this.get(parameter.name).readInto(new Float32Array(realCount(parameter)));
  }

  async readWhole(parameter: Parameter): Promise<Float32Array> {
    return this.read(parameter);
  }

  *parts(): Generator<ArenaPart> {
    for (const [index, { start, used }] of this.layout.buckets.entries()) {
      const { start: whole } = this.wholeLayout.buckets[index]!;
      if (used > 0) yield { kind: 'matrix', start: whole, tensor: this.matrices.view([used], start) };
    }
    if (this.vectors.count > 0) yield { kind: 'vector', start: 0, tensor: this.vectors };
  }

  /** A layer's tensors by their short names: `layer(3).qkvw`. */
  layer(index: number): LayerParameters {
    return Object.fromEntries(layerNames.map((name) => [name, this.get(`h.${index}.${name}`)])) as LayerParameters;
  }
}

const attentionNames = ['ln1w', 'ln1b', 'qkvw', 'qkvb', 'attprojw', 'attprojb'] as const;
const mlpNames = ['ln2w', 'ln2b', 'fcw', 'fcb', 'fcprojw', 'fcprojb'] as const;
const layerNames = [...attentionNames, ...mlpNames];

type LayerParameters = Readonly<Record<(typeof layerNames)[number], Tensor>>;
