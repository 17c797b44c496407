// A stand-in for a device: it allocates addresses and computes nothing, so that ops can be enqueued for their arguments alone.
import { type Device, DeviceBuffer, type DeviceOptions, elementTypesOf } from './device.ts';

/** Only for code whose ops are all replaced (`replaceOp`): of the device's methods it has those that allocate. */
export function absentDevice({
  kind,
  dtype = 'fp32',
  accumulates = false,
}: Pick<DeviceOptions, 'kind' | 'dtype' | 'accumulates'>): Device {
  // Tensors that overlap are refused, so addresses must differ.
  let next = 64n;
  const device = {
    description: { library: kind },
    ...{ dtype, ...elementTypesOf({ kind, dtype, accumulates }) },
    allocate: (bytes: number, name: string) => new DeviceBuffer(device, bytes, name, () => {}),
    call(name: string, args: { memory: BigUint64Array; bytes: number }) {
      if (name !== 'allocate') return;
      args.memory[0] = next;
      next += BigInt(args.bytes);
    },
    reserveWorkspace() {},
    dropGraphs() {},
  } as unknown as Device;
  return device;
}
