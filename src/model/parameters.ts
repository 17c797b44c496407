// The table of parameters: names, shapes, and initial values. Memory for a copy of them is in arena.ts.
import { elementCount } from '../native/buffer.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';

export type ParameterKind = 'matrix' | 'vector';

/** Initial values: normal numbers with a standard deviation, or one value everywhere. */
type Initial = { readonly standardDeviation: number } | { readonly value: number };

/** One parameter of the model. */
export interface Parameter {
  /** "wte", or "h.3.qkvw" for layer 3. */
  readonly name: string;
  /** The name in openai-community/gpt2. */
  readonly huggingFaceName: string;
  /** Whether Hugging Face stores it as [in, out]; ours is [out, in]. */
  readonly transposed: boolean;
  readonly kind: ParameterKind;
  readonly shape: readonly number[];
  /** Rows that hold values; the others are padding and stay zero. */
  readonly rows: number;
  /** Number of matrices of equal size in its rows: 3 in qkvw (query, key, value). 0 for a vector. */
  readonly matrices: number;
  readonly initial: Initial;
}

/**
 * Every parameter, matrices in the order in which initial weights are drawn (llm.c's and PyTorch's).
 * @example for (const { name, shape } of parameterTable(config)) console.log(name, shape); // h.0.qkvw [1152,384]
 */
export function parameterTable(config: ModelConfig): Parameter[] {
  const { layers, channels: C, context, vocabularySize } = config;
  const padded = paddedVocabularySize(config);
  const draw = { standardDeviation: 0.02 };
  // For the two projections that add to the residual stream: its variance then does not grow with depth (GPT-2 paper, 2.3).
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
    { rows = shape[0]!, matrices = kind === 'matrix' ? 1 : 0 } = {},
  ) => {
    const transposed = kind === 'matrix' && name.startsWith('h.');
    table.push({ name, huggingFaceName, transposed, kind, shape, rows, matrices, initial });
  };
  add('matrix', 'wte', 'wte.weight', [padded, C], draw, { rows: vocabularySize });
  add('matrix', 'wpe', 'wpe.weight', [context, C], draw);
  for (let layer = 0; layer < layers; layer++) {
    const h = `h.${layer}`;
    add('vector', `${h}.ln1w`, `${h}.ln_1.weight`, [C], one);
    add('vector', `${h}.ln1b`, `${h}.ln_1.bias`, [C], zero);
    add('matrix', `${h}.qkvw`, `${h}.attn.c_attn.weight`, [3 * C, C], draw, { matrices: 3 });
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

/**
 * Number of parameters, without padding rows.
 * @example console.log(parameterCount(presetConfig('d12')!)); // 124439808
 */
export function parameterCount({ layers, channels: C, context, vocabularySize }: ModelConfig): number {
  // A formula, not a sum over the table: a damaged file may claim any number of layers.
  return (vocabularySize + context) * C + layers * (12 * C * C + 13 * C) + 2 * C;
}

/** Number of values in a parameter's rows without padding; padding rows come last. */
export const realCount = ({ rows, shape }: Parameter): number => rows * elementCount(shape.slice(1));
