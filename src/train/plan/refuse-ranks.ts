// Refuses options that do not work with several ranks, before any rank is started.
import { usageError } from '../../base/errors.ts';
import type { LibraryKind } from '../../native/find-library.ts';
import type { TrainOptions } from '../../options/table.ts';

/**
 * The CPU library has ranks only for tests, so they need --device cpu. Ranks with different free memory would choose different
 * batches.
 * @param kind the library that `device` selects
 * @throws UsageError if several ranks would run on the CPU for lack of GPUs, or choose a batch
 */
export function refuseRanks(
  { ranks, device, batch }: Pick<TrainOptions, 'ranks' | 'batch'> & Pick<TrainOptions, 'device'>,
  kind: LibraryKind,
): void {
  if (ranks === 1) return;
  if (kind !== 'cuda' && device !== 'cpu') {
    throw usageError`--gpus ${ranks} needs GPUs, and none can be used here: \`npm run gpt2 -- doctor\` shows why; --device cpu runs the ranks without GPUs`;
  }
  if (batch === 'auto') throw usageError`--batch auto is for one GPU; give --batch a number with --gpus`;
}
