// A stand-in for a GPU: it allocates addresses and computes nothing, so that ops can be enqueued for their arguments alone.
import { DeviceBuffer } from '../native/buffer.ts';
import { type Device, type Dtype, gradientTypeOf } from '../native/device.ts';

/** Only for code whose ops are all replaced (`replaceOp`): of the device's methods it has those that allocate. */
export function absentGpu(dtype: Dtype): Device {
  // Tensors that overlap are refused, so addresses must differ.
  let next = 64n;
  const device = {
    description: { library: 'cuda' },
    ...{ dtype, elementType: dtype === 'bf16' ? 'bf16' : 'fp32', gradientType: gradientTypeOf(dtype, false) },
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
