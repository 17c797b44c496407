// The replaced variants of ops on a device: `enqueue` calls the replacement instead of the library. It runs kernels of a user, or
// several plain ops in the place of a fused op.
import type { Pointer } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import { meets, type NativeArguments, type OpContract, type OpVariant } from './contract.ts';

/** Arguments of an op: tensors (null if omitted), sizes that no tensor has, scalars, flags, and a communicator's handle. */
export type OpArguments = Readonly<Record<string, Tensor | number | boolean | Pointer | null>>;

/** @param native the arguments of the library's function: sizes, scalars, flags, and tensors as addresses */
export type Replacement = (args: OpArguments, native: NativeArguments) => void;

const replacements = new WeakMap<Device, Map<OpVariant, Replacement>>();

/** The replacement that computes a call on a device; undefined: the library. */
export function replacementOf(device: Device, op: OpContract, args: OpArguments): Replacement | undefined {
  for (const [variant, replacement] of replacements.get(device) ?? []) {
    if (variant.op === op && meets(args, variant.when)) return replacement;
  }
  return undefined;
}

/** Makes `replacement` compute a variant on a device from now on, or the library again if it is undefined. */
export function replaceOp(device: Device, variant: OpVariant, replacement: Replacement | undefined): void {
  const ofDevice = replacements.get(device) ?? new Map<OpVariant, Replacement>();
  replacements.set(device, ofDevice);
  if (replacement) ofDevice.set(variant, replacement);
  else ofDevice.delete(variant);
}

/** Calls `observer` after each replaced op during `run`, with the name of the op's contract. */
export async function observedReplacements<R>(
  device: Device,
  observer: (name: string, native: NativeArguments) => void,
  run: () => Promise<R>,
): Promise<R> {
  const ofDevice = replacements.get(device);
  if (!ofDevice) return run();
  const observed = [...ofDevice].map(([variant, replacement]): [OpVariant, Replacement] => [
    variant,
    (args, native) => {
      replacement(args, native);
      observer(variant.op.name, native);
    },
  ]);
  replacements.set(device, new Map(observed));
  try {
    return await run();
  } finally {
    replacements.set(device, ofDevice);
  }
}
