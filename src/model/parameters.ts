// THE table of parameters, and the arenas that hold a copy of all of them: weights, gradients, moments. Matrices and
// vectors lie in two arenas: only matrices decay, and only they have bf16 gradients.
import { bytesOf, type ElementType, Tensor } from '../native/buffer.ts';
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

/** Elements of an arena of each kind. */
export function arenaSizes(config: ModelConfig): Readonly<Record<ParameterKind, number>> {
  const sizes = { matrix: 0, vector: 0 };
  for (const { kind, shape } of parameterTable(config))
    sizes[kind] += Math.ceil(elements(shape) / alignment) * alignment;
  return sizes;
}

/** Where each parameter begins in its arena, in elements, by name. */
export function arenaStarts(config: ModelConfig): ReadonlyMap<string, number> {
  const next = { matrix: 0, vector: 0 };
  const starts = new Map<string, number>();
  for (const { name, kind, shape } of parameterTable(config)) {
    starts.set(name, next[kind]);
    next[kind] += Math.ceil(elements(shape) / alignment) * alignment;
  }
  return starts;
}

/** Bytes that one copy of all parameters takes. */
export function parameterBytes(config: ModelConfig, matrixType: ElementType, vectorType: ElementType): number {
  const { matrix, vector } = arenaSizes(config);
  return matrix * bytesOf(matrixType) + vector * bytesOf(vectorType);
}

/** One copy of all parameters (or of something with the same shapes) in device memory. */
export class ParameterArena {
  /** All matrices as one vector, [count]. */
  readonly matrices: Tensor;
  /** All vectors as one, [count]. */
  readonly vectors: Tensor;
  readonly #tensors = new Map<string, Tensor>();

  constructor(device: Device, config: ModelConfig, name: string, matrixType: ElementType, vectorType: ElementType) {
    const table = parameterTable(config);
    const sizes = arenaSizes(config);
    const flat = (kind: ParameterKind, type: ElementType) =>
      new Tensor(device.allocate(sizes[kind] * bytesOf(type), name), `${name}.${kind}`, type, [sizes[kind]]);
    this.matrices = flat('matrix', matrixType);
    this.vectors = flat('vector', vectorType);
    const starts = arenaStarts(config);
    for (const parameter of table) {
      const arena = parameter.kind === 'matrix' ? this.matrices : this.vectors;
      const start = starts.get(parameter.name)!;
      this.#tensors.set(parameter.name, arena.view(parameter.shape, start, `${name}.${parameter.name}`));
    }
  }

  /** The tensor of a parameter by its name in the table. */
  get(name: string): Tensor {
    const tensor = this.#tensors.get(name);
    if (!tensor) throw new Error(`no parameter is called ${name}`);
    return tensor;
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
