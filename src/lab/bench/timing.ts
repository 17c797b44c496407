// Times work on a device by events that are recorded before and after the work.
import { median } from '../../base/quantile.ts';
import type { Device } from '../../native/device.ts';

/** Milliseconds after which a measurement starts no further run. */
const enoughByDefault = 1000;

/**
 * Milliseconds that `run` takes on the device with cold caches: the median of up to 20 runs, each after a `flush`.
 * @param flush enqueues work that evicts the caches. Its work must take longer than the host needs to enqueue `run`: else the device
 * waits for the host, and the time includes this wait.
 */
export const timeCold = (device: Device, run: () => void, flush: () => void, enough?: number): Promise<number> =>
  medianOf(device, run, { most: 20, enough, flush });

/**
 * Milliseconds that `run` takes on the device: the median of five rounds, each of which repeats `run` for at least `least` ms. A round
 * is one graph if the device records graphs, so the host's time is excluded. `records: false` enqueues each call instead.
 */
export async function timeOnDevice(
  device: Device,
  run: () => void,
  least: number,
  { records = true, enough }: { records?: boolean; enough?: number } = {},
): Promise<number> {
  const rounds = async (repeats: number): Promise<number> => {
    const enqueue = () => {
      for (let repeat = 0; repeat < repeats; repeat++) run();
    };
    const program = records ? device.program(enqueue) : { run: enqueue };
    // The first round is not timed, because it loads the kernels and records the graph.
    program.run();
    await device.finished();
    return (await medianOf(device, () => program.run(), { most: 5, enough })) / repeats;
  };
  const once = await rounds(1);
  return once < least ? await rounds(Math.min(1000, Math.ceil(least / Math.max(once, 1e-3)))) : once;
}

/** The median milliseconds of at most `most` runs, each after a `flush`. No run starts later than `enough` ms after the first. */
async function medianOf(
  device: Device,
  run: () => void,
  { most, enough = enoughByDefault, flush }: { most: number; enough: number | undefined; flush?: () => void },
): Promise<number> {
  const [from, to] = [device.createEvent(), device.createEvent()];
  const times: number[] = [];
  const begin = performance.now();
  do {
    flush?.();
    device.record(from);
    run();
    device.record(to);
    await device.reached(to);
    times.push(device.elapsed(from, to));
  } while (times.length < most && performance.now() - begin < enough);
  return median(times);
}
