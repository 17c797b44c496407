// Memory that holds one number for each element of the parameters: weights, gradients, or optimizer state. Matrices are in one allocation
// (arena) and vectors in another, because only matrices have bf16 gradients, and only matrices are divided between ranks.
import { ShapeError } from '../base/errors.ts';
import { sharedBytes } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { bytesOf, type ElementType, elementCount } from '../native/element-types.ts';
import { Tensor } from '../native/tensor.ts';
import type { ModelConfig } from './config.ts';
import { headMatrix, type Parameter, type ParameterKind, parameterTable, realCount } from './parameters.ts';

// Tensors start on a multiple of 32 elements, 64 bytes in bf16. The gaps between tensors are zero, and every op keeps them zero.
const alignment = 32;

const upTo = (step: number, count: number): number => Math.ceil(count / step) * step;

/** A range of the matrices whose gradients the ranks sum in one collective: the embeddings, a few layers, or an untied head. */
export interface Bucket {
  readonly start: number;
  /** Number of elements, with the padding that makes the bucket divisible by the number of ranks. */
  readonly count: number;
}

/** The places of parameters in the arenas of matrices and vectors. All offsets and sizes are in elements. */
export interface ArenaLayout {
  /** Offset of each parameter, by name, in the arena of its kind (matrix or vector). */
  readonly starts: ReadonlyMap<string, number>;
  /** Buckets without gaps between them: the embeddings, then the layers in order, then an untied head. */
  readonly buckets: readonly Bucket[];
  /** Index of the bucket of each layer. If there is an untied head, the last element is the index of the head's bucket. */
  readonly bucketOfLayer: readonly number[];
  readonly sizes: Readonly<Record<ParameterKind, number>>;
}

export type Selection = (parameter: Parameter) => boolean;

export const everyParameter: Selection = () => true;

export interface Division {
  /** Number of equal, aligned shares into which each bucket is divided: one for each rank. */
  readonly shares: number;
  /** Parameters that must not be split between shares, because their optimizer updates whole matrices. Default: none. */
  readonly whole?: Selection;
}

export const undivided: Division = { shares: 1 };

/**
 * Places parameters in arenas. If a bucket has a parameter of `whole`, no parameter of the bucket is split between shares. Other
 * buckets have their parameters in the table's order, and may be split anywhere.
 * @param selected parameters that get memory. One selected parameter gives memory to its whole bucket (or to all vectors), so that a
 *   rank's share of this copy has the same elements as the rank's share of the weights. Other buckets are empty.
 */
export function arenaLayout(
  config: ModelConfig,
  { shares, whole = () => false }: Division = undivided,
  selected: Selection = everyParameter,
): ArenaLayout {
  const table = parameterTable(config);
  const keepsWhole = (parameters: readonly Parameter[]) => shares > 1 && parameters.some(whole);
  const layersInBucket = keepsWhole(table) ? layersInSixth(config) : layersPerSum(config);
  const vectors = table.filter(({ kind }) => kind === 'vector');
  const bucketOfLayer = Array.from({ length: config.layers }, (_, layer) => Math.floor(layer / layersInBucket) + 1);
  if (table.some(({ name }) => name === headMatrix)) bucketOfLayer.push(bucketOfLayer.at(-1)! + 1);
  const bucketed = Array.from({ length: bucketOfLayer.at(-1)! + 1 }, (): Parameter[] => []);
  for (const parameter of table) {
    if (parameter.kind === 'matrix') bucketed[bucketOf({ bucketOfLayer }, parameter.name)]!.push(parameter);
  }
  const starts = new Map<string, number>();
  const sizes = { matrix: 0, vector: 0 };
  /** Appends parameters to an arena, in `loads.length` shares of equal length; see `placesIn`. */
  const append = (kind: ParameterKind, parameters: readonly Parameter[], loads: number[]) => {
    // Adds buckets without memory to `loads` too, so that later buckets have the same places as in the arena of the weights.
    const { places, length } = placesIn(parameters, loads);
    if (!parameters.some(selected)) return;
    for (const { name, part, offset } of places) starts.set(name, sizes[kind] + part * length + offset);
    sizes[kind] += loads.length * length;
  };
  append('vector', vectors, [0]);
  const loads = new Array<number>(shares).fill(0);
  const buckets = bucketed.map((parameters): Bucket => {
    const start = sizes.matrix;
    append('matrix', parameters, keepsWhole(parameters) ? loads : [0]);
    sizes.matrix = upTo(alignment * shares, sizes.matrix);
    return { start, count: sizes.matrix - start };
  });
  return { starts, buckets, bucketOfLayer, sizes };
}

/**
 * Places a bucket's parameters in shares, without splitting any. A single share holds them in order. With several shares, the largest
 * remaining parameter always goes to the emptiest share.
 * @param loads elements of each share in all earlier buckets, to which this bucket's elements are added. Among equally empty shares,
 *   the one with the smallest load is chosen, so that no rank always gets the longest share
 */
function placesIn(parameters: readonly Parameter[], loads: number[]) {
  const ends = loads.map(() => 0);
  const room = ({ shape }: Parameter) => upTo(alignment, elementCount(shape));
  const ordered = loads.length === 1 ? parameters : parameters.toSorted((a, b) => room(b) - room(a));
  const places = ordered.map((parameter) => {
    const [part] = [...ends.keys()].toSorted((a, b) => ends[a]! - ends[b]! || loads[a]! - loads[b]!) as [number];
    const offset = ends[part]!;
    ends[part]! += room(parameter);
    loads[part]! += room(parameter);
    return { name: parameter.name, part, offset };
  });
  return { places, length: Math.max(...ends) };
}

/** Number of elements below which a collective sum over ranks spends most of its time on latency. */
const leastPerSum = 12_000_000;

/**
 * The most layers in a bucket: a backward pass then has about six buckets, and only the last bucket's sum does not overlap with
 * computation. If matrices must not be split, buckets have this many layers, because one layer's four matrices fill few shares.
 */
const layersInSixth = ({ layers }: ModelConfig): number => Math.ceil(layers / 6);

const layersPerSum = (config: ModelConfig): number =>
  Math.min(layersInSixth(config), Math.ceil(leastPerSum / (12 * config.channels * config.channels)));

export function bucketOf({ bucketOfLayer }: Pick<ArenaLayout, 'bucketOfLayer'>, name: string): number {
  if (name === headMatrix) return bucketOfLayer.at(-1)!;
  const layer = /^h\.(\d+)\./.exec(name)?.[1];
  return layer === undefined ? 0 : bucketOfLayer[Number(layer)]!;
}

/** Index of the bucket whose first layer this is; undefined if the layer is not the first of a bucket. */
export const bucketFrom = ({ bucketOfLayer }: ArenaLayout, layer: number): number | undefined =>
  bucketOfLayer[layer] === bucketOfLayer[layer - 1] ? undefined : bucketOfLayer[layer];

/** Bytes to allocate for `count` elements; for 0 elements as for 1, because a device cannot allocate 0 bytes. */
export const flatBytes = (count: number, type: ElementType): number => Math.max(count, 1) * bytesOf(type);

/** A matrix, or all vectors, of a `ParameterCopy`; `start` is the tensor's offset in the undivided arena of its kind, in elements. */
export interface ArenaPart {
  readonly kind: ParameterKind;
  readonly start: number;
  readonly tensor: Tensor;
}

/** One number per element of some parameters, all on this device or divided between ranks (sharded-parameters.ts). */
export interface ParameterCopy {
  readonly layout: ArenaLayout;
  /** The layout without division between ranks, which `parts` and checkpoints use. */
  readonly wholeLayout: ArenaLayout;
  /** All elements of matrices that this device holds, as one vector [count]. */
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  get(name: string): Tensor;
  /** Writes a parameter's rows; padding rows become zero. @throws ShapeError unless there are `realCount` values */
  write(parameter: Parameter, values: Float32Array): void;
  /** Reads a parameter without padding rows. @throws Error if ranks divide the copy: then call `readWhole` */
  read(parameter: Parameter): Float32Array;
  /**
   * Reads a parameter without padding rows, also if each rank keeps only its share. All ranks must call `readWhole` for the same
   * parameter; waiting for the other ranks does not block the event loop.
   * @throws NativeError if another rank ended before it sent its part
   */
  readWhole(parameter: Parameter): Promise<Float32Array>;
  /** Yields all elements in pieces, with offsets in `wholeLayout`. A piece is valid for work enqueued before the next piece is yielded. */
  parts(): Iterable<ArenaPart>;
}

/** @throws ShapeError unless there is one value for each element of a parameter without its padding rows */
export function checkCount(parameter: Parameter, values: Float32Array): void {
  const count = realCount(parameter);
  if (values.length !== count) throw new ShapeError(`${parameter.name} needs ${count} values, not ${values.length}`);
}

/**
 * Yields the matrices that lie in `tensor`, a range of a copy's matrix arena that begins at offset `start`. Each matrix comes with its
 * offset in `wholeLayout`, in which matrices that are neighbours in `tensor` may be apart.
 */
export function* matricesIn(
  { layout, wholeLayout }: Pick<ParameterCopy, 'layout' | 'wholeLayout'>,
  table: readonly Parameter[],
  tensor: Tensor,
  start: number,
): Generator<ArenaPart> {
  for (const { name, kind, shape } of table) {
    const whole = wholeLayout.starts.get(name);
    const at = (layout.starts.get(name) ?? -1) - start;
    if (kind === 'vector' || whole === undefined || at < 0 || at >= tensor.count) continue;
    yield { kind, start: whole, tensor: tensor.view(shape, at) };
  }
}

/** A copy of parameters whose elements are all in this device's memory. */
export class ParameterArena implements ParameterCopy {
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly layout: ArenaLayout;
  readonly wholeLayout: ArenaLayout;
  readonly #table: readonly Parameter[];
  readonly #tensors = new Map<string, Tensor>();
  readonly #layers: LayerParameters[] = [];

  constructor(
    device: Device,
    config: ModelConfig,
    name: string,
    matrixType: ElementType,
    vectorType: ElementType,
    division = undivided,
    selected = everyParameter,
  ) {
    this.#table = parameterTable(config);
    this.layout = arenaLayout(config, division, selected);
    this.wholeLayout = arenaLayout(config, undivided, selected);
    const { sizes, starts } = this.layout;
    const flat = (kind: ParameterKind, type: ElementType) => {
      const bytes = flatBytes(sizes[kind], type);
      // If ranks divide matrices, other ranks write to this memory, whose size must then be a multiple of 2 MiB.
      const room = division.shares > 1 && kind === 'matrix' ? sharedBytes(bytes) : bytes;
      return new Tensor(device.allocate(room, name), `${name}.${kind}`, type, [sizes[kind]]);
    };
    this.matrices = flat('matrix', matrixType);
    this.vectors = flat('vector', vectorType);
    for (const parameter of this.#table) {
      const start = starts.get(parameter.name);
      if (start === undefined) continue;
      const arena = parameter.kind === 'matrix' ? this.matrices : this.vectors;
      this.#tensors.set(parameter.name, arena.view(parameter.shape, start, `${name}.${parameter.name}`));
    }
  }

  get(name: string): Tensor {
    const tensor = this.find(name);
    if (!tensor) throw new Error(`${this.matrices.name} has no parameter ${name}`);
    return tensor;
  }

  /** The tensor of a parameter by its name; undefined if the model does not have the parameter. */
  find(name: string): Tensor | undefined {
    return this.#tensors.get(name);
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
    yield* matricesIn(this, this.#table, this.matrices, 0);
    if (this.vectors.count > 0) yield { kind: 'vector', start: 0, tensor: this.vectors };
  }

  /** A layer's tensors by their short names: `layer(3).qkvw`. */
  layer(index: number): LayerParameters {
    this.#layers[index] ??= Object.fromEntries(
      [...names, ...optionalNames].map((name) => [name, this.find(`h.${index}.${name}`)]),
    ) as LayerParameters;
    return this.#layers[index];
  }
}

const names = ['ln1w', 'qkvw', 'qkvb', 'attprojw', 'attprojb', 'ln2w', 'fcw', 'fcb', 'fcprojw', 'fcprojb'] as const;
/** Parameters that only some models have: biases of layernorm, and the factors of learned skips and value embeddings. */
const optionalNames = ['ln1b', 'ln2b', 'streamw', 'valuew'] as const;

type LayerParameters = Readonly<
  Record<(typeof names)[number], Tensor> & Record<(typeof optionalNames)[number], Tensor | undefined>
>;
