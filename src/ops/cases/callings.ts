// The ways to call a case that its contract allows: plain, accumulating, without optional tensors, in place.
import { holds, isWritten, type NativeArguments, type OpContract, type When } from '../contract.ts';
import type { Calling, OpCases } from './op-case.ts';

export const plain: Calling = { accumulate: false, without: [], inPlace: {} };

/** The calls of an op that its contract allows: plain, accumulating, without optional tensors, in place. */
export function callingsOf({ variant: { op, when } }: OpCases): Calling[] {
  // Tensors that the variant's conditions decide are not left out in turn.
  const entries = Object.entries(op.tensors).filter(([name]) => !isDecided(name, op, when));
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

/** Whether the conditions of a variant say if a tensor is null. */
function isDecided(name: string, op: OpContract, when: When): boolean {
  const { together, where } = op.tensors[name]!;
  if (name in when || (together !== undefined && together in when)) return true;
  // The variant's value of the argument decides, unless the tensor may be null there too.
  return where !== undefined && where.argument in when && !(where.orNull && holds(where, when as NativeArguments));
}

/** " (+=, without bias)", or "" for the plain call. */
export function labelOf({ accumulate, without: names, inPlace }: Calling): string {
  const parts = [
    ...(accumulate ? ['+='] : []),
    ...names.map((name) => `without ${name}`),
    ...Object.entries(inPlace).map(([name, other]) => `${name} in ${other}`),
  ];
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
