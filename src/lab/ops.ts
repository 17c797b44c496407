// The ops that a user's kernel can replace: the ops with test cases.
import { gpt2Error } from '../base/errors.ts';
import { opCases } from '../ops/cases/index.ts';
import type { OpCases } from '../ops/cases/op-case.ts';

const all: readonly OpCases[] = Object.values(opCases).flat();

/** Name and formula of each op that a kernel card can compute, in the order of the model. */
export const labOps = (): readonly { readonly op: string; readonly formula: string }[] =>
  all.map(({ variant: { name, op } }) => ({ op: name, formula: op.formula }));

/** The test cases of an op, or of a variant such as "norm_forward.layernorm". @throws Gpt2Error if there are none */
export function casesNamed(op: string): OpCases {
  const found = all.find((cases) => cases.variant.name === op);
  if (found) return found;
  throw gpt2Error`${op} cannot be computed by a kernel card: name one of ${all.map((each) => each.variant.name).join(', ')}`;
}
