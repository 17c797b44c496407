// Memory for one value per parameter element: weights, gradients, optimizer state. Matrices and vectors have separate arenas:
// only matrices have bf16 gradients, and only matrices are divided between ranks.
import { ShapeError } from '../base/errors.ts';
import { sharedBytes } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { bytesOf, type ElementType, elementCount } from '../native/element-types.ts';
import { Tensor } from '../native/tensor.ts';
import type { ModelConfig } from './config.ts';
import { headMatrix, type Parameter, type ParameterKind, parameterTable, realCount } from './parameters.ts';

// Tensors start on a multiple of this many elements, 64 bytes in bf16. The gaps are zero, and every op keeps them zero.
const alignment = 32;

const upTo = (step: number, count: number): number => Math.ceil(count / step) * step;

/** A range of the matrix arena whose gradients ranks sum in one collective: the embeddings, a few layers, or the head. */
export interface Bucket {
  readonly start: number;
  /** Elements, including the padding that makes the bucket divisible into shares. */
  readonly count: number;
}

/** Offsets in an arena, in elements. */
export interface ArenaLayout {
  /** Start of each parameter in the arena of its kind. */
  readonly starts: ReadonlyMap<string, number>;
  /** The embeddings, then the layers in order, then an untied head, without gaps between buckets. */
  readonly buckets: readonly Bucket[];
  /** Index of each layer's bucket. An untied head counts as the layer after the last. */
  readonly bucketOfLayer: readonly number[];
  readonly sizes: Readonly<Record<ParameterKind, number>>;
}

export type Selection = (parameter: Parameter) => boolean;

export const everyParameter: Selection = () => true;

export interface Division {
  /** Equal, aligned parts that every bucket is divisible into, one for each rank. */
  readonly shares: number;
  /** Parameters that lie in one share as a whole, because its rank updates whole matrices. Default: none. */
  readonly whole?: Selection;
}

export const undivided: Division = { shares: 1 };

/**
 * A bucket that contains a parameter of `whole` keeps each of its parameters in one share; others follow the table's order.
 * @param selected parameters that get memory. A bucket with a selected parameter holds all of its parameters, so that a rank's
 *   part matches that rank's part of the weights; other buckets are empty. Either all vectors get memory or none.
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
  /** Places parameters at the end of an arena, in as many equal parts as `loads` has elements; see `placesIn`. */
  const append = (kind: ParameterKind, parameters: readonly Parameter[], loads: number[]) => {
    // Counts the loads of buckets without memory too, so that later buckets are placed as in the weights.
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
 * Places parameters in parts of equal length. One part holds them in order. If there are several, the emptiest part takes the
 * next largest parameter.
 * @param loads elements of each part in all earlier buckets, to which this function adds. Of equally empty parts the least
 *   loaded is filled, so that the longest part does not go to the same rank each time
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

/** Elements below which a sum over ranks spends most of its time on latency. */
const leastPerSum = 12_000_000;

/**
 * The most layers of a bucket: a backward pass has about six buckets, so that only the last sum is not overlapped. Parameters
 * that stay whole need this many layers to fill the shares: a layer has only four.
 */
const layersInSixth = ({ layers }: ModelConfig): number => Math.ceil(layers / 6);

const layersPerSum = (config: ModelConfig): number =>
  Math.min(layersInSixth(config), Math.ceil(leastPerSum / (12 * config.channels * config.channels)));

export function bucketOf({ bucketOfLayer }: Pick<ArenaLayout, 'bucketOfLayer'>, name: string): number {
  if (name === headMatrix) return bucketOfLayer.at(-1)!;
  const layer = /^h\.(\d+)\./.exec(name)?.[1];
  return layer === undefined ? 0 : bucketOfLayer[Number(layer)]!;
}

/** Index of the bucket that begins with a layer; undefined for other layers. */
export const bucketFrom = ({ bucketOfLayer }: ArenaLayout, layer: number): number | undefined =>
  bucketOfLayer[layer] === bucketOfLayer[layer - 1] ? undefined : bucketOfLayer[layer];

/** Bytes to allocate for `count` elements: at least one element, because a device allocates no empty memory. */
export const flatBytes = (count: number, type: ElementType): number => Math.max(count, 1) * bytesOf(type);

/** A part of a `ParameterCopy`, and its start in the arena of its kind, in elements. */
export interface ArenaPart {
  readonly kind: ParameterKind;
  readonly start: number;
  readonly tensor: Tensor;
}

/** One value per element of some parameters: all on this device, or divided between ranks (sharded-parameters.ts). */
export interface ParameterCopy {
  readonly layout: ArenaLayout;
  /** The undivided layout, which `parts` and checkpoints use. */
  readonly wholeLayout: ArenaLayout;
  /** The matrices that this device holds, as one vector, [count]. */
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  get(name: string): Tensor;
  /** Fills a parameter's real rows; padding rows become zero. @throws ShapeError unless there are `realCount` values */
  write(parameter: Parameter, values: Float32Array): void;
  /** A parameter's real rows. @throws Error if ranks divide the copy: then call `readWhole` */
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

/**
 * The matrices of a copy that lie in `tensor`, the range of its arena from `start` on, with their places in `wholeLayout`.
 * Matrices that are neighbours in `tensor` may be apart in `wholeLayout`.
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

/** A copy whose elements are all in one device's memory. */
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
      // Ranks that divide matrices share this memory.
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

  /** The tensor of a parameter; undefined if this model does not have it. */
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
/** Biases of layernorm, and the factors of learned skips and value embeddings. */
const optionalNames = ['ln1b', 'ln2b', 'streamw', 'valuew'] as const;

type LayerParameters = Readonly<
  Record<(typeof names)[number], Tensor> & Record<(typeof optionalNames)[number], Tensor | undefined>
>;
