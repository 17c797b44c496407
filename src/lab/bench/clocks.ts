// Reads a GPU's clocks and power.
import { spawnSync } from 'node:child_process';

/** A GPU's clocks and power while it works, as nvidia-smi reports them; null without nvidia-smi. */
export function readClocks(gpu: string): string | null {
  const query = 'name,driver_version,clocks.sm,clocks.mem,power.draw,clocks_throttle_reasons.active';
  const { status, stdout } = spawnSync('nvidia-smi', ['-i', gpu, `--query-gpu=${query}`, '--format=csv,noheader'], {
    encoding: 'utf8',
  });
  return status === 0 ? (stdout.split('\n')[0] ?? null) : null;
}
