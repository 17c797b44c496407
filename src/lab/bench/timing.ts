// Times work on a device by its events.
import { median } from '../../base/quantile.ts';
import type { Device } from '../../native/device.ts';

/** A measurement stops after this time in ms, but makes at least one run. */
const enoughByDefault = 1000;

/**
 * Milliseconds that `run` takes on the device after `flush` has replaced the contents of its caches: the median of 20 runs.
 * @param flush enqueues work that takes the device longer than the host needs to enqueue `run`: otherwise the host is timed
 */
export const timeCold = (device: Device, run: () => void, flush: () => void, enough?: number): Promise<number> =>
  medianOf(device, run, { most: 20, enough, flush });

/**
 * Milliseconds that `run` takes on the device: the median of five rounds of repeats, a round at least `least` ms. If the
 * device records graphs, a round is one graph, without time of the host; `records: false` enqueues each call instead.
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
    // The first round pays for loading kernels and the graph.
    program.run();
    await device.finished();
    return (await medianOf(device, () => program.run(), { most: 5, enough })) / repeats;
  };
  const once = await rounds(1);
  return once < least ? await rounds(Math.min(1000, Math.ceil(least / Math.max(once, 1e-3)))) : once;
}

/** The median time of at most `most` runs in `enough` ms, each after a `flush`. */
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
