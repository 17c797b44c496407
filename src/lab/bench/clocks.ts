// Reads a GPU's clocks and power.
import { gpuFields } from '../../report/machine-load.ts';

/** A GPU's clocks and power while it works, as nvidia-smi reports them; null without nvidia-smi. */
export const readClocks = (gpu: string): string | null =>
  gpuFields('name,driver_version,clocks.sm,clocks.mem,power.draw,clocks_throttle_reasons.active', gpu)?.[0] ?? null;
