// The variants of ops. An op with optional tensors or activations computes different functions in different calls. A variant is one of
// these functions, chosen by conditions on the arguments; each call is a call of one variant. Test cases (cases/), plain ops
// (plain-ops.ts) and kernel cards (kernels/) refer to variants by name.
import { didYouMean } from '../base/checks/nearest.ts';
import { UsageError } from '../base/errors.ts';
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import { meets, nameOf, type OpContract, type OpVariant, type When } from './contract.ts';
import { contracts } from './ops.generated.ts';

const { GPT2_NO_ACTIVATION: none, GPT2_GELU: gelu, GPT2_RELU_SQUARED: reluSquared } = GPT2_ACTIVATION;

const activated = {
  plain: { activation: none },
  gelu: { activation: gelu },
  relu_squared: { activation: reluSquared },
} as const;

/** The variants of each op that has several, by the op's name. A variant is called "op.variant"; the variant `plain` is called "op". */
const table = {
  embedding_forward: { plain: { positions: null }, at_positions: { positions: 'tensor' } },
  attention_forward: { plain: { first: null }, masked: { first: 'tensor' } },
  attention_backward: { plain: { first: null }, masked: { first: 'tensor' } },
  global_norm: { plain: { communicator: null }, of_ranks: { communicator: 'tensor' } },
  matmul_forward: {
    plain: { activation: none, residual: null },
    gelu: { activation: gelu },
    relu_squared: { activation: reluSquared },
    residual: { activation: none, residual: 'tensor' },
  },
  matmul_backward_input: activated,
  classifier: { plain: { inValues: null }, fp8: { inValues: 'tensor' } },
  fp8_matmul_forward: activated,
  fp8_matmul_backward_input: activated,
  norm_matmul_forward: { plain: { activation: none }, gelu: { activation: gelu } },
  norm_forward: {
    layernorm: { out: 'tensor', values: null, mean: 'tensor' },
    rmsnorm: { out: 'tensor', values: null, mean: null },
    layernorm_fp8: { values: 'tensor', mean: 'tensor' },
    rmsnorm_fp8: { values: 'tensor', mean: null },
  },
  norm_backward: {
    layernorm: { values: null, mean: 'tensor' },
    rmsnorm: { values: null, mean: null },
    layernorm_fp8: { values: 'tensor', mean: 'tensor' },
    rmsnorm_fp8: { values: 'tensor', mean: null },
  },
  qk_norm_rotary_forward: { plain: { valueFactors: null }, values: { valueFactors: 'tensor' } },
  qk_norm_rotary_backward: { plain: { valueFactors: null }, values: { valueFactors: 'tensor' } },
  stream_sum_backward: { plain: { values: null }, fp8: { values: 'tensor' } },
} as const satisfies Readonly<Record<string, Readonly<Record<string, When>>>>;

type Table = typeof table;
type Contracts = typeof contracts;
type ByName = {
  [Name in keyof Contracts as Contracts[Name]['symbol'] extends `gpt2_${infer Op}` ? Op : never]: Contracts[Name];
};
type VariantsOf<Op extends keyof Table> =
  | `${Op}.${Exclude<keyof Table[Op] & string, 'plain'>}`
  | ('plain' extends keyof Table[Op] ? Op : never);

/** The name of an op (its C function without gpt2_) or of an op's variant: "gelu_forward", "norm_forward.layernorm". */
export type OpName = Exclude<keyof ByName, keyof Table> | { [Op in keyof Table]: VariantsOf<Op> }[keyof Table];

export type ContractOf<Name extends OpName> = ByName[(Name extends `${infer Op}.${string}` ? Op : Name) & keyof ByName];

export type WhenOf<Name extends OpName> = Name extends `${infer Op extends keyof Table}.${infer Variant}`
  ? Table[Op][Variant & keyof Table[Op]]
  : Name extends keyof Table
    ? Table[Name]['plain' & keyof Table[Name]]
    : unknown;

/** All variants of all ops, in the order of cuda/gpt2.h. */
export const opVariants: readonly OpVariant[] = Object.values(contracts).flatMap((op: OpContract): OpVariant[] => {
  const name = nameOf(op);
  const rows: [string, When][] = Object.entries(table[name as keyof Table] ?? { plain: {} });
  return rows.map(([variant, when]) => ({ name: variant === 'plain' ? name : `${name}.${variant}`, op, when }));
});

const byName = new Map(opVariants.map((variant) => [variant.name, variant]));

/** The variant that a call with these arguments computes. @param args numbers, and tensors or their addresses; null if omitted */
export function variantOf(op: OpContract, args: Readonly<Record<string, unknown>>): OpVariant {
  const found = opVariants.find((variant) => variant.op === op && meets(args, variant.when));
  if (!found) throw new Error(`no variant of ${nameOf(op)} has these arguments`);
  return found;
}

/** The variant with this name. @throws UsageError with the most similar name or all names */
export function variantNamed(name: string): OpVariant {
  const found = byName.get(name);
  if (found) return found;
  const names = [...byName.keys()];
  // Suggests a name that has all words of `name`. Before ABI 22, words had another order: matmul_gelu_forward, layernorm_forward.
  const wordsOf = (text: string) => text.split(/[._]/);
  const [alike] = names
    .filter((each) => wordsOf(name).every((word) => wordsOf(each).includes(word)))
    .sort((a, b) => wordsOf(a).length - wordsOf(b).length);
  const advice = didYouMean(name, names, `name one of ${names.join(', ')}`);
  throw new UsageError(`there is no op "${name}": ${alike ? `did you mean ${alike}?` : advice}`);
}
