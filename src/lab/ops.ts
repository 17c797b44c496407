// The ops that a kernel can compute: those with cases to test it with.
import { gpt2Error } from '../base/errors.ts';
import { opCases } from '../ops/cases/index.ts';
import type { OpCases } from '../ops/cases/op-case.ts';

const all: readonly OpCases[] = Object.values(opCases).flat();

/** Names and formulas, in the order of the model. */
export const labOps = (): readonly { readonly op: string; readonly formula: string }[] =>
  all.map(({ variant: { name, op } }) => ({ op: name, formula: op.formula }));

/** The cases of an op, or of a variant of one. @throws Gpt2Error if it has none */
export function casesNamed(op: string): OpCases {
  const found = all.find((cases) => cases.variant.name === op);
  if (found) return found;
  throw gpt2Error`${op} cannot be computed by a kernel card: name one of ${all.map((each) => each.variant.name).join(', ')}`;
}
