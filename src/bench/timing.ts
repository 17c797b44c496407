// Times work on a device by its own events, and the middle of several measurements.
import type { Device } from '../native/device.ts';

/** The value below which a share `q` of the values lies; 0.5 is the median. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Milliseconds that `run` takes on the device, issued back to back for at least `least` ms; the median of five such rounds. */
export async function timeOnDevice(device: Device, run: () => void, least: number): Promise<number> {
  const [from, to] = [device.createEvent(), device.createEvent()];
  const round = async (repeats: number): Promise<number> => {
    device.record(from);
    for (let repeat = 0; repeat < repeats; repeat++) run();
    device.record(to);
    await device.reached(to);
    return device.elapsed(from, to) / repeats;
  };
  // The first call pays for loading the kernel.
  run();
  const once = await round(1);
  const repeats = Math.min(1000, Math.max(1, Math.ceil(least / Math.max(once, 1e-3))));
  const rounds: number[] = [];
  for (let index = 0; index < 5; index++) rounds.push(await round(repeats));
  return median(rounds);
}
