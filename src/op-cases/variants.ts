// The ways to call an op that its contract allows.

import { isWritten } from '../ops/contract.ts';
import type { OpCases } from './op-case.ts';
import { plain, type Variant } from './run-case.ts';

/** The plain call and every variant. */
export function variantsOf({ op }: OpCases): Variant[] {
  const entries = Object.entries(op.tensors);
  const optional = entries.filter(([, { isOptional }]) => isOptional).map(([name]) => name);
  const outputs = optional.filter((name) => isWritten(op.tensors[name]!));
  return [
    plain,
    ...(op.flags.includes('accumulate') ? [{ ...plain, accumulate: true }] : []),
    ...optional.map((name) => ({ ...plain, without: [name] })),
    ...(outputs.length > 1 ? [{ ...plain, without: outputs }] : []),
    ...entries.flatMap(([name, { mayBe }]) => (mayBe ?? []).map((other) => ({ ...plain, inPlace: { [name]: other } }))),
  ];
}
