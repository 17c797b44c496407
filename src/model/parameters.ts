// THE table of parameters, and the arenas that hold a copy of all of them: weights, gradients, moments. Matrices and
// vectors lie in two arenas: only matrices decay, and only they have bf16 gradients.
import { ShapeError } from '../errors.ts';
import { bytesOf, type ElementType, Tensor } from '../native/buffer.ts';
import { sharedBytes } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';

export type ParameterKind = 'matrix' | 'vector';

/** How a parameter starts: drawn with a standard deviation, or one value everywhere. */
export type Initial = { readonly standardDeviation: number } | { readonly value: number };

/** One parameter of the model. */
export interface Parameter {
  /** "wte", or "h.3.qkvw" for layer 3. */
  readonly name: string;
  /** Its name in openai-community/gpt2, whose linear weights are stored transposed, as [in, out]. */
  readonly huggingFaceName: string;
  /** Whether Hugging Face stores it as [in, out] where ours is [out, in]. */
  readonly transposed: boolean;
  readonly kind: ParameterKind;
  readonly shape: readonly number[];
  /** Rows that hold something; the rest is padding and stays zero. */
  readonly rows: number;
  readonly initial: Initial;
}

/** Every parameter, in the order in which the initial weights are drawn for matrices (llm.c's and PyTorch's). */
export function parameterTable(config: ModelConfig): Parameter[] {
  const { layers, channels: C, context, vocabularySize } = config;
  const padded = paddedVocabularySize(config);
  const draw = { standardDeviation: 0.02 };
  // The two projections that write to the residual stream, so that its variance does not grow with depth (GPT-2 paper, 2.3).
  const drawResidual = { standardDeviation: 0.02 / Math.sqrt(2 * layers) };
  const zero = { value: 0 };
  const one = { value: 1 };
  const table: Parameter[] = [];
  const add = (
    kind: ParameterKind,
    name: string,
    huggingFaceName: string,
    shape: number[],
    initial: Initial,
    rows = shape[0]!,
  ) => {
    const transposed = kind === 'matrix' && name.startsWith('h.');
    table.push({ name, huggingFaceName, transposed, kind, shape, rows, initial });
  };
  add('matrix', 'wte', 'wte.weight', [padded, C], draw, vocabularySize);
  add('matrix', 'wpe', 'wpe.weight', [context, C], draw);
  for (let layer = 0; layer < layers; layer++) {
    const h = `h.${layer}`;
    add('vector', `${h}.ln1w`, `${h}.ln_1.weight`, [C], one);
    add('vector', `${h}.ln1b`, `${h}.ln_1.bias`, [C], zero);
    add('matrix', `${h}.qkvw`, `${h}.attn.c_attn.weight`, [3 * C, C], draw);
    add('vector', `${h}.qkvb`, `${h}.attn.c_attn.bias`, [3 * C], zero);
    add('matrix', `${h}.attprojw`, `${h}.attn.c_proj.weight`, [C, C], drawResidual);
    add('vector', `${h}.attprojb`, `${h}.attn.c_proj.bias`, [C], zero);
    add('vector', `${h}.ln2w`, `${h}.ln_2.weight`, [C], one);
    add('vector', `${h}.ln2b`, `${h}.ln_2.bias`, [C], zero);
    add('matrix', `${h}.fcw`, `${h}.mlp.c_fc.weight`, [4 * C, C], draw);
    add('vector', `${h}.fcb`, `${h}.mlp.c_fc.bias`, [4 * C], zero);
    add('matrix', `${h}.fcprojw`, `${h}.mlp.c_proj.weight`, [C, 4 * C], drawResidual);
    add('vector', `${h}.fcprojb`, `${h}.mlp.c_proj.bias`, [C], zero);
  }
  add('vector', 'lnfw', 'ln_f.weight', [C], one);
  add('vector', 'lnfb', 'ln_f.bias', [C], zero);
  return table;
}

const elements = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Parameters of the model, without the padding rows: 124,439,808 for d12. */
export function parameterCount({ layers, channels: C, context, vocabularySize }: ModelConfig): number {
  // A formula, not a sum over the table: it is asked for models that a damaged file describes, of any number of layers.
  return (vocabularySize + context) * C + layers * (12 * C * C + 13 * C) + 2 * C;
}

// Every tensor of an arena starts on 64 bytes in fp32 and in bf16. The gaps are zero and stay so under every op.
const alignment = 32;

const upTo = (step: number, count: number): number => Math.ceil(count / step) * step;

/** A stretch of the matrices' arena whose gradients ranks exchange together: the embeddings, or a few layers. */
export interface Bucket {
  /** In elements, as `count`. */
  readonly start: number;
  /** With what makes it divisible into shares. */
  readonly count: number;
  /** Without. */
  readonly used: number;
}

/** Where everything lies in an arena, in elements. */
export interface ArenaLayout {
  /** Of each parameter, in the arena of its kind. */
  readonly starts: ReadonlyMap<string, number>;
  /** The embeddings, then the layers from the first: their matrices follow each other. */
  readonly buckets: readonly Bucket[];
  readonly sizes: Readonly<Record<ParameterKind, number>>;
}

/** @param shares parts of equal size, on whole alignments, that every bucket can be cut into */
export function arenaLayout(config: ModelConfig, shares = 1): ArenaLayout {
  const next = { matrix: 0, vector: 0 };
  const starts = new Map<string, number>();
  const opened: { start: number; end: number }[] = [];
  for (const { name, kind, shape } of parameterTable(config)) {
    if (kind === 'matrix' && opened.length === bucketOf(config, name)) {
      next.matrix = upTo(alignment * shares, next.matrix);
      opened.push({ start: next.matrix, end: next.matrix });
    }
    starts.set(name, next[kind]);
    next[kind] += upTo(alignment, elements(shape));
    if (kind === 'matrix') opened.at(-1)!.end = next.matrix;
  }
  const buckets = opened.map(({ start, end }) => {
    const used = end - start;
    return { start, count: upTo(alignment * shares, used), used };
  });
  return { starts, buckets, sizes: { ...next, matrix: upTo(alignment * shares, next.matrix) } };
}

/** An exchange of less than this many elements is mostly waiting. */
const worthAnExchange = 12_000_000;

/** Layers whose gradients are exchanged together; at least six times in a backward pass, so that only the last is waited for. */
export const layersInBucket = ({ layers, channels }: Pick<ModelConfig, 'layers' | 'channels'>): number =>
  Math.min(Math.ceil(layers / 6), Math.ceil(worthAnExchange / (12 * channels * channels)));

/** Which bucket a parameter lies in. */
export function bucketOf(config: ModelConfig, name: string): number {
  const layer = /^h\.(\d+)\./.exec(name)?.[1];
  return layer === undefined ? 0 : Math.floor(Number(layer) / layersInBucket(config)) + 1;
}

/** Elements of an arena of each kind. */
export const arenaSizes = (config: ModelConfig, shares = 1): Readonly<Record<ParameterKind, number>> =>
  arenaLayout(config, shares).sizes;

/** Bytes that one copy of all parameters takes. */
export function parameterBytes(
  config: ModelConfig,
  matrixType: ElementType,
  vectorType: ElementType,
  shares = 1,
): number {
  const { matrix, vector } = arenaSizes(config, shares);
  return arenaBytes(matrix, 'matrix', matrixType, shares) + arenaBytes(vector, 'vector', vectorType, shares);
}

/** Ranks that share matrices may reach each other's. */
function arenaBytes(count: number, kind: ParameterKind, type: ElementType, shares: number): number {
  const bytes = count * bytesOf(type);
  return shares > 1 && kind === 'matrix' ? sharedBytes(bytes) : bytes;
}

/** A piece of a copy of all parameters, and where it lies in the whole, in elements. */
export interface ArenaPart {
  readonly kind: ParameterKind;
  readonly start: number;
  readonly tensor: Tensor;
}

/** One copy of all parameters, or of something with the same shapes: whole in this device, or spread over ranks (shards.ts). */
export interface ParameterCopy {
  /** What of all matrices this device holds, as one vector, [count]. */
  readonly matrices: Tensor;
  /** All vectors as one, [count]. */
  readonly vectors: Tensor;
  /** The tensor of a parameter by its name in the table. */
  get(name: string): Tensor;
  /** Fills a parameter's real rows; padding rows become zero. @throws ShapeError unless there are `realCount` values */
  write(parameter: Parameter, values: Float32Array): void;
  /** A parameter's real rows. For a copy that is spread over ranks it throws: use `readWhole`. */
  read(parameter: Parameter): Float32Array;
  /**
   * A parameter's real rows, from any copy. It waits for other ranks without blocking the event loop; all of them read the same
   * parameter at the same time.
   * @throws NativeError if another rank ended before it sent its part
   */
  readWhole(parameter: Parameter): Promise<Float32Array>;
  /**
   * The whole copy, as an arena without shares lays it out. A part is there until the next is asked for, behind what was
   * issued before that.
   */
  parts(): Iterable<ArenaPart>;
}

/** How many values of a parameter's tensor are real: those of its real rows, which come first. */
export const realCount = ({ rows, shape }: Parameter): number => rows * elements(shape.slice(1));

/** @throws ShapeError unless there is a value for each element of a parameter's real rows */
export function checkCount(parameter: Parameter, values: Float32Array): void {
  const count = realCount(parameter);
  if (values.length !== count) throw new ShapeError(`${parameter.name} needs ${count} values, not ${values.length}`);
}

/** A copy that is whole in one device's memory. */
export class ParameterArena implements ParameterCopy {
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly layout: ArenaLayout;
  readonly #config: ModelConfig;
  readonly #shares: number;
  readonly #tensors = new Map<string, Tensor>();

  constructor(
    device: Device,
    config: ModelConfig,
    name: string,
    matrixType: ElementType,
    vectorType: ElementType,
    shares = 1,
  ) {
    this.#config = config;
    this.#shares = shares;
    this.layout = arenaLayout(config, shares);
    const { sizes, starts } = this.layout;
    const flat = (kind: ParameterKind, type: ElementType) => {
      const bytes = arenaBytes(sizes[kind], kind, type, shares);
      return new Tensor(device.allocate(bytes, name), `${name}.${kind}`, type, [sizes[kind]]);
    };
    this.matrices = flat('matrix', matrixType);
    this.vectors = flat('vector', vectorType);
    for (const parameter of parameterTable(config)) {
      const arena = parameter.kind === 'matrix' ? this.matrices : this.vectors;
      const start = starts.get(parameter.name)!;
      this.#tensors.set(parameter.name, arena.view(parameter.shape, start, `${name}.${parameter.name}`));
    }
  }

  get(name: string): Tensor {
    const tensor = this.#tensors.get(name);
    if (!tensor) throw new Error(`no parameter is called ${name}`);
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
    if (this.#shares === 1) {
      yield { kind: 'matrix', start: 0, tensor: this.matrices };
    } else {
      const { buckets } = arenaLayout(this.#config);
      for (const [index, { start, used }] of this.layout.buckets.entries()) {
        yield { kind: 'matrix', start: buckets[index]!.start, tensor: this.matrices.view([used], start) };
      }
    }
    yield { kind: 'vector', start: 0, tensor: this.vectors };
  }

  /** A layer's tensors by their short names: `layer(3).qkvw`. */
  layer(index: number): LayerParameters {
    return Object.fromEntries(layerNames.map((name) => [name, this.get(`h.${index}.${name}`)])) as LayerParameters;
  }
}

const layerNames = [
  'ln1w',
  'ln1b',
  'qkvw',
  'qkvb',
  'attprojw',
  'attprojb',
  'ln2w',
  'ln2b',
  'fcw',
  'fcb',
  'fcprojw',
  'fcprojb',
] as const;

export type LayerParameters = Readonly<Record<(typeof layerNames)[number], Tensor>>;
