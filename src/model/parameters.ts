// The table of parameters: names, shapes, and initial values. arena.ts has their memory.
import { checkArguments } from '../base/checks/given.ts';
import { elementCount } from '../native/element-types.ts';
import { type Architecture, architectureOf } from './architecture.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';

export type ParameterKind = 'matrix' | 'vector';

/** Initial values: normal numbers with a standard deviation, one value everywhere, or each value. */
type Initial =
  | { readonly standardDeviation: number }
  | { readonly value: number }
  | { readonly values: readonly number[] };

/** One parameter of the model. */
export interface Parameter {
  /** "wte", or "h.3.qkvw" for layer 3. */
  readonly name: string;
  /** The name in openai-community/gpt2. */
  readonly huggingFaceName: string;
  /** Whether Hugging Face stores the matrix as [in, out]; ours is [out, in]. */
  readonly transposed: boolean;
  readonly kind: ParameterKind;
  readonly shape: readonly number[];
  /** Rows that hold values; the others are padding and stay zero. */
  readonly rows: number;
  /** Number of matrices of equal size in the rows: 3 in qkvw (query, key, value). 0 for a vector. */
  readonly matrices: number;
  readonly initial: Initial;
}

export const valueTable = (index: number): string => `vte${index}`;

export const isValueTable = ({ name }: Parameter): boolean => name.startsWith('vte');

export const headMatrix = 'headw';

/**
 * Every parameter, matrices in the order in which initial weights are drawn (llm.c's and PyTorch's).
 * @example for (const { name, shape } of parameterTable(config)) console.log(name, shape); // h.0.qkvw [1152,384]
 */
export function parameterTable(config: ModelConfig): Parameter[] {
  checkArguments({ config });
  const { layers, channels: C, context, vocabularySize } = config;
  const { norm, positions, embeddingNorm, head, initialization, skips, valueEmbeddings = 0 } = architectureOf(config);
  const padded = paddedVocabularySize(config);
  const { embedding, matrix, projection } = initialValues[initialization](config);
  const zero = { value: 0 };
  const one = { value: 1 };
  const table: Parameter[] = [];
  const add = (
    kind: ParameterKind,
    name: string,
    huggingFaceName: string,
    shape: number[],
    initial: Initial,
    { rows = shape[0]!, matrices = kind === 'matrix' ? 1 : 0 } = {},
  ) => {
    const transposed = kind === 'matrix' && name.startsWith('h.');
    table.push({ name, huggingFaceName, transposed, kind, shape, rows, matrices, initial });
  };
  const addNorm = (name: string, huggingFaceName: string) => {
    add('vector', `${name}w`, `${huggingFaceName}.weight`, [C], one);
    if (norm === 'layernorm') add('vector', `${name}b`, `${huggingFaceName}.bias`, [C], zero);
  };
  add('matrix', 'wte', 'wte.weight', [padded, C], embedding, { rows: vocabularySize });
  for (let index = 0; index < valueEmbeddings; index++) {
    add('matrix', valueTable(index), `vte.${index}.weight`, [padded, C], embedding, { rows: vocabularySize });
  }
  if (positions === 'learned') add('matrix', 'wpe', 'wpe.weight', [context, C], embedding);
  if (embeddingNorm === 'rmsnorm') add('vector', 'lnew', 'ln_e.weight', [C], one);
  for (let layer = 0; layer < layers; layer++) {
    const h = `h.${layer}`;
    // As in the program from which the parts come (docs/recipe.md).
    if (skips === 'learned') add('vector', `${h}.streamw`, `${h}.stream.weight`, [3], { values: [1, 0, 1] });
    addNorm(`${h}.ln1`, `${h}.ln_1`);
    add('matrix', `${h}.qkvw`, `${h}.attn.c_attn.weight`, [3 * C, C], matrix(C), { matrices: 3 });
    add('vector', `${h}.qkvb`, `${h}.attn.c_attn.bias`, [3 * C], zero);
    if (valueEmbeddings > 0) add('vector', `${h}.valuew`, `${h}.attn.value.weight`, [2], { values: [0.5, 0.5] });
    add('matrix', `${h}.attprojw`, `${h}.attn.c_proj.weight`, [C, C], projection);
    add('vector', `${h}.attprojb`, `${h}.attn.c_proj.bias`, [C], zero);
    addNorm(`${h}.ln2`, `${h}.ln_2`);
    add('matrix', `${h}.fcw`, `${h}.mlp.c_fc.weight`, [4 * C, C], matrix(C));
    add('vector', `${h}.fcb`, `${h}.mlp.c_fc.bias`, [4 * C], zero);
    add('matrix', `${h}.fcprojw`, `${h}.mlp.c_proj.weight`, [C, 4 * C], projection);
    add('vector', `${h}.fcprojb`, `${h}.mlp.c_proj.bias`, [C], zero);
  }
  addNorm('lnf', 'ln_f');
  if (head === 'untied') {
    // Padding rows take part in the softmax, as in the program from which the recipe comes (docs/recipe.md).
    add('matrix', headMatrix, 'lm_head.weight', [padded, C], projection);
    add('vector', 'headb', 'lm_head.bias', [padded], zero);
  }
  return table;
}

interface InitialValues {
  readonly embedding: Initial;
  /** For a matrix with `fanIn` columns. */
  matrix(fanIn: number): Initial;
  /** For the matrices whose output is added to the residual stream, and for an untied head. */
  readonly projection: Initial;
}

const initialValues: Readonly<Record<Architecture['initialization'], (config: ModelConfig) => InitialValues>> = {
  gpt2: ({ layers }) => {
    const draw = { standardDeviation: 0.02 };
    // The variance of the residual stream then does not grow with depth (GPT-2 paper, 2.3).
    return { embedding: draw, matrix: () => draw, projection: { standardDeviation: 0.02 / Math.sqrt(2 * layers) } };
  },
  'fan-in': byFanIn(0.33),
  'quarter-fan-in': byFanIn(0.25),
};

/** @param variance of a matrix's weights times its fan-in */
function byFanIn(variance: number) {
  return ({ channels, head }: ModelConfig): InitialValues => {
    const matrix = (fanIn: number) => ({ standardDeviation: Math.sqrt(variance / fanIn) });
    const embedding = head === 'untied' ? { standardDeviation: 1 } : matrix(channels);
    return { embedding, matrix, projection: { value: 0 } };
  };
}

/**
 * Number of parameters, without padding rows.
 * @example console.log(parameterCount(presetConfig('d12')!)); // 124439808
 */
export function parameterCount(config: ModelConfig): number {
  checkArguments({ config });
  const { layers, ...once } = config;
  // Not from the table of all layers: a damaged file may claim any number of layers.
  const countOf = (layers: number) =>
    parameterTable({ ...once, layers }).reduce((sum, parameter) => sum + realCount(parameter), 0);
  return countOf(0) + layers * (countOf(1) - countOf(0));
}

/** Number of values in a parameter without its padding rows, which come last. */
export const realCount = ({ rows, shape }: Parameter): number => rows * elementCount(shape.slice(1));
