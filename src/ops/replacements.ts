// The replaced ops of a device: `enqueue` calls the replacement instead of the library. It runs kernels of a user, or several
// plain ops in the place of a fused op.
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import type { NativeArguments } from './contract.ts';

/** Arguments of an op: tensors (null if omitted), sizes that no tensor has, scalars and flags. */
export type OpArguments = Readonly<Record<string, Tensor | number | boolean | null>>;

/** @param native the arguments of the library's function: sizes, scalars, flags, and tensors as addresses */
export type Replacement = (args: OpArguments, native: NativeArguments) => void;

const replacements = new WeakMap<Device, Map<string, Replacement>>();

/** @param name of the op's contract: "layernormForward" */
export const replacementOf = (device: Device, name: string): Replacement | undefined =>
  replacements.get(device)?.get(name);

/** Makes `replacement` compute an op on a device from now on, or the library again if it is undefined. */
export function replaceOp(device: Device, name: string, replacement: Replacement | undefined): void {
  const ofDevice = replacements.get(device) ?? new Map<string, Replacement>();
  replacements.set(device, ofDevice);
  if (replacement) ofDevice.set(name, replacement);
  else ofDevice.delete(name);
}

/** Calls `observer` after each replaced op during `run`. */
export async function observedReplacements<R>(
  device: Device,
  observer: (name: string, native: NativeArguments) => void,
  run: () => Promise<R>,
): Promise<R> {
  const ofDevice = replacements.get(device);
  if (!ofDevice) return run();
  const observed = [...ofDevice].map(([name, replacement]): [string, Replacement] => [
    name,
    (args, native) => {
      replacement(args, native);
      observer(name, native);
    },
  ]);
  replacements.set(device, new Map(observed));
  try {
    return await run();
  } finally {
    replacements.set(device, ofDevice);
  }
}
