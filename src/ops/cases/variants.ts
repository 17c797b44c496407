// The ways to call an op that its contract allows: without optional tensors, accumulating, in place.
import { isWritten } from '../contract.ts';
import type { OpCases, Variant } from './op-case.ts';
import { plain } from './run-case.ts';

/** The plain call and every variant. */
export function variantsOf({ op }: OpCases): Variant[] {
  const entries = Object.entries(op.tensors);
  const optional = entries
    .filter(([, { isOptional, together }]) => isOptional && together === undefined)
    .map(([name]) => [name, ...entries.filter(([, { together }]) => together === name).map(([other]) => other)]);
  const outputs = optional.filter(([name]) => isWritten(op.tensors[name!]!));
  return [
    plain,
    ...(op.flags.includes('accumulate') ? [{ ...plain, accumulate: true }] : []),
    ...optional.map((names) => ({ ...plain, without: names })),
    ...(outputs.length > 1 ? [{ ...plain, without: outputs.flat() }] : []),
    ...entries.flatMap(([name, { mayBe }]) => (mayBe ?? []).map((other) => ({ ...plain, inPlace: { [name]: other } }))),
  ];
}
