// Replacements of op variants on a device: functions that `enqueue` calls instead of the library. A replacement launches a user's
// kernels, or enqueues several plain ops in place of a fused op.
import type { Pointer } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import { meets, type NativeArguments, type OpContract, type OpVariant } from './contract.ts';

/** Arguments of an op: tensors (null if omitted), sizes that no tensor has, scalars, flags, and a communicator's handle. */
export type OpArguments = Readonly<Record<string, Tensor | number | boolean | Pointer | null>>;

/** Computes a call of an op. @param native the arguments as the C function gets them: sizes, scalars, flags, addresses of tensors */
export type Replacement = (args: OpArguments, native: NativeArguments) => void;

const replacements = new WeakMap<Device, Map<OpVariant, Replacement>>();

/** The replacement that computes a call of an op on a device; undefined if the library computes the call. */
export function replacementOf(device: Device, op: OpContract, args: OpArguments): Replacement | undefined {
  for (const [variant, replacement] of replacements.get(device) ?? []) {
    if (variant.op === op && meets(args, variant.when)) return replacement;
  }
  return undefined;
}

/** Makes `replacement` compute a variant on a device from now on; undefined restores the library. */
export function replaceOp(device: Device, variant: OpVariant, replacement: Replacement | undefined): void {
  const ofDevice = replacements.get(device) ?? new Map<OpVariant, Replacement>();
  replacements.set(device, ofDevice);
  if (replacement) ofDevice.set(variant, replacement);
  else ofDevice.delete(variant);
}

/** Awaits `run`. Meanwhile, calls `observer` after each replaced op with the op's name (`OpContract.name`) and arguments. */
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
