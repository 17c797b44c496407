// The variants of ops. An op with optional tensors or an activation computes different things in different calls; a variant is
// one of them, by conditions on the arguments. Each call of an op is of one variant. Cases (cases/), plain ops (plain-ops.ts) and
// kernel cards (kernels/) name variants.
import { didYouMean } from '../base/checks/nearest.ts';
import { UsageError } from '../base/errors.ts';
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import { meets, type OpContract, type OpVariant, type When } from './contract.ts';
import { contracts } from './ops.generated.ts';

/** `formerly`: the variant's name in benchmarks recorded before ABI 22. */
type Row = readonly [formerly: string, when: When];

const { GPT2_NO_ACTIVATION: none, GPT2_GELU: gelu, GPT2_RELU_SQUARED: reluSquared } = GPT2_ACTIVATION;

/** The variants of each op that has several, by the op's name in the header. The plain variant has the op's name. */
const table = {
  embedding_forward: {
    plain: ['embedding_forward', { positions: null }],
    at_positions: ['embedding_at_forward', { positions: 'tensor' }],
  },
  attention_forward: {
    plain: ['attention_forward', { first: null }],
    masked: ['attention_forward', { first: 'tensor' }],
  },
  attention_backward: {
    plain: ['attention_backward', { first: null }],
    masked: ['attention_backward', { first: 'tensor' }],
  },
  global_norm: {
    plain: ['global_norm', { communicator: null }],
    of_ranks: ['global_norm_of_ranks', { communicator: 'tensor' }],
  },
  matmul_forward: {
    plain: ['matmul_forward', { activation: none, residual: null }],
    gelu: ['matmul_gelu_forward', { activation: gelu }],
    relu_squared: ['matmul_relu_squared_forward', { activation: reluSquared }],
    residual: ['matmul_residual_forward', { activation: none, residual: 'tensor' }],
  },
  matmul_backward_input: {
    plain: ['matmul_backward_input', { activation: none }],
    gelu: ['matmul_gelu_backward_input', { activation: gelu }],
    relu_squared: ['matmul_relu_squared_backward_input', { activation: reluSquared }],
  },
  classifier: {
    plain: ['classifier', { inValues: null }],
    fp8: ['fp8_classifier', { inValues: 'tensor' }],
  },
  fp8_matmul_forward: {
    plain: ['fp8_matmul', { activation: none }],
    gelu: ['fp8_matmul_gelu_forward', { activation: gelu }],
    relu_squared: ['fp8_matmul_relu_squared_forward', { activation: reluSquared }],
  },
  fp8_matmul_backward_input: {
    plain: ['fp8_matmul', { activation: none }],
    gelu: ['fp8_matmul_gelu_backward_input', { activation: gelu }],
    relu_squared: ['fp8_matmul_relu_squared_backward_input', { activation: reluSquared }],
  },
  norm_matmul_forward: {
    plain: ['layernorm_matmul_forward', { activation: none }],
    gelu: ['layernorm_matmul_gelu_forward', { activation: gelu }],
  },
  norm_forward: {
    layernorm: ['layernorm_forward', { out: 'tensor', values: null, mean: 'tensor' }],
    rmsnorm: ['rmsnorm_forward', { out: 'tensor', values: null, mean: null }],
    layernorm_fp8: ['layernorm_fp8_forward', { values: 'tensor', mean: 'tensor' }],
    rmsnorm_fp8: ['rmsnorm_fp8_forward', { values: 'tensor', mean: null }],
  },
  norm_backward: {
    layernorm: ['layernorm_backward', { values: null, mean: 'tensor' }],
    rmsnorm: ['rmsnorm_backward', { values: null, mean: null }],
    layernorm_fp8: ['layernorm_fp8_backward', { values: 'tensor', mean: 'tensor' }],
    rmsnorm_fp8: ['rmsnorm_fp8_backward', { values: 'tensor', mean: null }],
  },
  qk_norm_rotary_forward: {
    plain: ['qk_norm_rotary_forward', { valueFactors: null }],
    values: ['qk_norm_rotary_forward', { valueFactors: 'tensor' }],
  },
  qk_norm_rotary_backward: {
    plain: ['qk_norm_rotary_backward', { valueFactors: null }],
    values: ['qk_norm_rotary_backward', { valueFactors: 'tensor' }],
  },
  stream_sum_backward: {
    plain: ['stream_sum_backward', { values: null }],
    fp8: ['stream_sum_backward', { values: 'tensor' }],
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Row>>>>;

type Table = typeof table;
type Contracts = typeof contracts;
type ByName = {
  [Name in keyof Contracts as Contracts[Name]['symbol'] extends `gpt2_${infer Op}` ? Op : never]: Contracts[Name];
};
type VariantsOf<Op extends keyof Table> =
  | `${Op}.${Exclude<keyof Table[Op] & string, 'plain'>}`
  | ('plain' extends keyof Table[Op] ? Op : never);

/** The name of an op in the header without gpt2_, or of a variant of it: "gelu_forward", "norm_forward.layernorm". */
export type OpName = Exclude<keyof ByName, keyof Table> | { [Op in keyof Table]: VariantsOf<Op> }[keyof Table];

export type ContractOf<Name extends OpName> = ByName[(Name extends `${infer Op}.${string}` ? Op : Name) & keyof ByName];

export type WhenOf<Name extends OpName> = Name extends `${infer Op extends keyof Table}.${infer Variant}`
  ? ConditionsOf<Table[Op][Variant & keyof Table[Op]]>
  : Name extends keyof Table
    ? ConditionsOf<Table[Name]['plain' & keyof Table[Name]]>
    : unknown;
type ConditionsOf<Entry> = Entry extends readonly [string, infer Conditions] ? Conditions : unknown;

/** The name of an op in cards and messages: its name in the header without gpt2_. */
export const opNameOf = ({ symbol }: Pick<OpContract, 'symbol'>): string => symbol.replace(/^gpt2_/, '');

const nameOf = (op: string, variant: string): string => (variant === 'plain' ? op : `${op}.${variant}`);
const rowsOf = (op: string): [string, Row][] => Object.entries(table[op as keyof Table] ?? {});

/** Every variant of every op, in the order of the header. */
export const opVariants: readonly OpVariant[] = Object.values(contracts).flatMap((op: OpContract): OpVariant[] => {
  const name = opNameOf(op);
  const rows = rowsOf(name);
  return rows.length === 0
    ? [{ name, op, when: {} }]
    : rows.map(([variant, [, when]]) => ({ name: nameOf(name, variant), op, when }));
});

const byName = new Map(opVariants.map((variant) => [variant.name, variant]));
/** The variants today of an op before ABI 22: several for fp8_matmul, which served forward and backward. */
const renamed = (formerly: string): string[] =>
  Object.keys(table).flatMap((op) =>
    rowsOf(op).flatMap(([variant, [name]]) => (name === formerly ? [nameOf(op, variant)] : [])),
  );

/** The variant of a call. @param args tensors or addresses, null if omitted, and numbers */
export function variantOf(op: OpContract, args: Readonly<Record<string, unknown>>): OpVariant {
  const found = opVariants.find((variant) => variant.op === op && meets(args, variant.when));
  if (!found) throw new Error(`no variant of ${opNameOf(op)} has these arguments`);
  return found;
}

/** A variant by its name. @throws UsageError naming the variants, or the new name of a former op */
export function variantNamed(name: string): OpVariant {
  const found = byName.get(name);
  if (found) return found;
  const now = renamed(name);
  const names = [...byName.keys()];
  throw new UsageError(
    now.length === 0
      ? `there is no op "${name}": ${didYouMean(name, names, `name one of ${names.join(', ')}`)}`
      : `there is no op "${name}" any more: it is ${now.join(' or ')}`,
  );
}

/** A name in recorded benchmarks as the variant's name today. */
export const currentName = (recorded: string): string => renamed(recorded)[0] ?? recorded;
