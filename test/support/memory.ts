// A machine with more memory than this one may have, or less.
import { vi } from 'vitest';
import { Device } from '../../src/native/device.ts';

/** From now on every device has so many GiB free, all of its memory, until the test ends. */
export function haveMemory(gib: number): void {
  const bytes = gib * 2 ** 30;
  vi.spyOn(Device.prototype, 'memory').mockReturnValue({ available: bytes, total: bytes });
  vi.spyOn(process, 'constrainedMemory').mockReturnValue(0);
}
