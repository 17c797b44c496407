// A stand-in for a device: an object of class `Device` whose library hands out addresses and computes nothing. After a model is created
// on the stand-in, `Device.allocated` says how much memory the model would take. A caller can enqueue ops to observe their arguments.
import type { Bindings } from './bindings.generated.ts';
import { Device, type DeviceOptions } from './device.ts';

interface Answers {
  /** A real device that can say how much scratch ops need. Without one, a plan counts no scratch: in bf16 under 0.5% of the plan. */
  readonly scratchOf?: Pick<Device, 'call'>;
  /** The device's memory in bytes. Default 0. */
  readonly memory?: { readonly available: number; readonly total: number };
  readonly name?: string;
  /** Value of `Communicator.parts` for communicators on the stand-in. */
  readonly parts?: number;
}

/** The code path that a stand-in for a device reports. */
export const plannedPath = 'planned';

export function absentDevice(
  options: DeviceOptions,
  { scratchOf, memory = { available: 0, total: 0 }, name = '', parts }: Answers = {},
): Device {
  // Each allocation gets a different address, because ops refuse tensors that overlap.
  let next = 64n;
  const allocate = ({ memory, bytes }: { memory: BigUint64Array; bytes: number }): number => {
    memory[0] = next;
    next += BigInt(bytes);
    return 0;
  };
  const answers: Readonly<Record<string, unknown>> = {
    contextDescription: () =>
      JSON.stringify({ library: options.kind, device: name, codePath: plannedPath, canCapture: false }),
    communicatorDescription: () => JSON.stringify({ parts }),
    memoryInfo: ({ available, total }: { available: BigInt64Array; total: BigInt64Array }) => {
      available[0] = BigInt(Math.floor(memory.available));
      total[0] = BigInt(Math.floor(memory.total));
      return 0;
    },
    ...{ allocate, allocatePinned: allocate },
  };
  const doNothing = () => 0;
  const askScratch = (name: string) => (args: { context?: unknown }) => {
    const { context: _, ...sizes } = args;
    scratchOf?.call(name as 'normScratch', sizes as never);
    return 0;
  };
  const get = (_: unknown, name: string) => answers[name] ?? (name.endsWith('Scratch') ? askScratch(name) : doNothing);
  return new Device(options, new Proxy({}, { get }) as Bindings);
}
