// Refuses options that do not work with several ranks, before any rank is started.
import { usageError } from '../../base/errors.ts';
import type { LibraryKind } from '../../native/find-library.ts';

/**
 * The CPU library has ranks only for tests, so they need --device cpu.
 * @param kind the library that `device` selects
 * @throws UsageError if several ranks would run on the CPU for lack of GPUs
 */
export function refuseAccidentalCpu(
  { ranks, device }: { readonly ranks: number; readonly device: string | undefined },
  kind: LibraryKind,
): void {
  if (ranks === 1 || kind === 'cuda' || device === 'cpu') return;
  throw usageError`--gpus ${ranks} needs GPUs, and none can be used here: \`npm run gpt2 -- doctor\` shows why; --device cpu runs the ranks without GPUs`;
}

/** Ranks with different free memory would choose different batches. @throws UsageError */
export function refuseAutoBatch(batch: number | 'auto' | undefined, ranks: number): void {
  if (batch !== 'auto' || ranks === 1) return;
  throw usageError`--batch auto is for one GPU; give --batch a number with --gpus`;
}
