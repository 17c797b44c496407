// A stand-in for a device: a real `Device` whose library gives out addresses and computes nothing. After a model is created on
// it, `allocated` says how much memory the model would take. Ops are enqueued only to see their arguments.
import type { Bindings } from './bindings.generated.ts';
import { Device, type DeviceOptions } from './device.ts';

interface Answers {
  /** The device that says how much scratch ops need. Default: none, which in bf16 leaves out less than 0.5% of a plan. */
  readonly scratchOf?: Pick<Device, 'call'>;
  /** Bytes of memory. Default none. */
  readonly memory?: { readonly available: number; readonly total: number };
  readonly name?: string;
  /** `Communicator.parts` of communicators on this device. */
  readonly parts?: number;
}

/** The code path of such a device. */
export const plannedPath = 'planned';

export function absentDevice(
  options: DeviceOptions,
  { scratchOf, memory = { available: 0, total: 0 }, name = '', parts }: Answers = {},
): Device {
  // Tensors that overlap are refused, so addresses must differ.
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
