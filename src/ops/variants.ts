// The variants of ops. An op with optional tensors or an activation computes different things in different calls; a variant is
// one of them, by conditions on the arguments. Each call of an op is of one variant. Cases (cases/), plain ops (plain-ops.ts) and
// kernel cards (kernels/) name variants.
import { didYouMean } from '../base/checks/nearest.ts';
import { UsageError } from '../base/errors.ts';
import { meets, type OpContract, type OpVariant, type When } from './contract.ts';
import { contracts } from './ops.generated.ts';

/** The name of the op that computed a variant before ABI 22, under which benchmarks recorded it, and the variant's conditions. */
type Row = readonly [formerly: string, when: When];

/** The variants of each op that has several, by the op's name in the header. */
const table = {
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
} as const satisfies Readonly<Record<string, Readonly<Record<string, Row>>>>;

type Table = typeof table;
type Contracts = typeof contracts;
type ByName = {
  [Name in keyof Contracts as Contracts[Name]['symbol'] extends `gpt2_${infer Op}` ? Op : never]: Contracts[Name];
};
type VariantsOf<Op extends keyof Table> = `${Op}.${keyof Table[Op] & string}`;

/** The name of an op in the header without gpt2_, or of a variant of it: "gelu_forward", "norm_forward.layernorm". */
export type OpName = Exclude<keyof ByName, keyof Table> | { [Op in keyof Table]: VariantsOf<Op> }[keyof Table];

/** The contract of an op or a variant. */
export type ContractOf<Name extends OpName> = ByName[(Name extends `${infer Op}.${string}` ? Op : Name) & keyof ByName];

/** The conditions of a variant. */
export type WhenOf<Name extends OpName> = Name extends `${infer Op extends keyof Table}.${infer Variant}`
  ? Table[Op][Variant & keyof Table[Op]] extends readonly [string, infer Conditions]
    ? Conditions
    : never
  : unknown;

/** The name of an op in cards and messages: its name in the header without gpt2_. */
export const opNameOf = ({ symbol }: Pick<OpContract, 'symbol'>): string => symbol.replace(/^gpt2_/, '');

const rowsOf = (op: string): [string, Row][] => Object.entries(table[op as keyof Table] ?? {});

/** Every variant of every op, in the order of the header. */
export const opVariants: readonly OpVariant[] = Object.values(contracts).flatMap((op: OpContract): OpVariant[] => {
  const name = opNameOf(op);
  const rows = rowsOf(name);
  if (rows.length === 0) return [{ name, op, when: {} }];
  return rows.map(([variant, [, when]]) => ({ name: `${name}.${variant}`, op, when }));
});

const byName = new Map(opVariants.map((variant) => [variant.name, variant]));
const renamed = new Map(
  Object.keys(table).flatMap((op) => rowsOf(op).map(([variant, [formerly]]) => [formerly, `${op}.${variant}`])),
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
  const now = renamed.get(name);
  const names = [...byName.keys()];
  throw new UsageError(
    now === undefined
      ? `there is no op "${name}": ${didYouMean(name, names, `name one of ${names.join(', ')}`)}`
      : `there is no op "${name}" any more: it is ${now}`,
  );
}

/** A name in recorded benchmarks as the variant's name today. */
export const currentName = (recorded: string): string => renamed.get(recorded) ?? recorded;
