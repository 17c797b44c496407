// The table of a model's parameters: names, shapes and initial values. arena.ts allocates their memory.
import { checkArguments } from '../base/checks/given.ts';
import { elementCount } from '../native/element-types.ts';
import { type Architecture, architectureOf } from './architecture.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';

export type ParameterKind = 'matrix' | 'vector';

/** Initial values of a parameter: normal random numbers, one value for all elements, or a list of all values. */
type Initial =
  | { readonly standardDeviation: number }
  | { readonly value: number }
  | { readonly values: readonly number[] };

export interface Parameter {
  /** "wte", or "h.3.qkvw" for layer 3. */
  readonly name: string;
  /** The tensor's name in Hugging Face's openai-community/gpt2. */
  readonly huggingFaceName: string;
  /** Whether Hugging Face stores the matrix as [in, out]. Here matrices are [out, in]. */
  readonly transposed: boolean;
  readonly kind: ParameterKind;
  readonly shape: readonly number[];
  /** Number of rows with values. The remaining rows are padding, which stays zero. */
  readonly rows: number;
  /** Number of stacked matrices of equal size: 3 in qkvw (query, key, value), 0 for a vector. */
  readonly matrices: number;
  readonly initial: Initial;
}

export const valueTable = (index: number): string => `vte${index}`;

export const isValueTable = ({ name }: Parameter): boolean => name.startsWith('vte');

export const headMatrix = 'headw';

/**
 * All parameters of a model. Matrices are in the order in which llm.c and PyTorch draw initial weights.
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
    // Initial factors of learned skips, as in the program from which the skips are taken (docs/recipe.md).
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
    // An untied head has no padding rows: all rows take part in the softmax, as in the recipe's original program (docs/recipe.md).
    add('matrix', headMatrix, 'lm_head.weight', [padded, C], projection);
    add('vector', 'headb', 'lm_head.bias', [padded], zero);
  }
  return table;
}

interface InitialValues {
  readonly embedding: Initial;
  /** Initial values of a matrix with `fanIn` columns that is neither an embedding nor a projection. */
  matrix(fanIn: number): Initial;
  /** Initial values of matrices whose output is added to the residual stream, and of an untied head. */
  readonly projection: Initial;
}

const initialValues: Readonly<Record<Architecture['initialization'], (config: ModelConfig) => InitialValues>> = {
  gpt2: ({ layers }) => {
    const draw = { standardDeviation: 0.02 };
    // Smaller initial projections keep the variance of the residual stream from growing with depth (GPT-2 paper, 2.3).
    return { embedding: draw, matrix: () => draw, projection: { standardDeviation: 0.02 / Math.sqrt(2 * layers) } };
  },
  'fan-in': byFanIn(0.33),
  'quarter-fan-in': byFanIn(0.25),
};

/** Initial values by fan-in (columns of a matrix). @param variance the variance of a matrix's weights times its fan-in */
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
  // Counts one layer, not the table of all layers: a damaged file may claim any number of layers.
  const countOf = (layers: number) =>
    parameterTable({ ...once, layers }).reduce((sum, parameter) => sum + realCount(parameter), 0);
  return countOf(0) + layers * (countOf(1) - countOf(0));
}

/** Number of elements of a parameter without its padding rows, which are its last rows. */
export const realCount = ({ rows, shape }: Parameter): number => rows * elementCount(shape.slice(1));
