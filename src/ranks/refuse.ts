// What several ranks cannot be asked for, said before any of them is started.
import { UsageError } from '../errors.ts';
import type { LibraryKind } from '../native/library.ts';

/**
 * Ranks of the CPU library are for tests: nobody wants them for lack of GPUs.
 * @param device as asked for; `kind` is what that comes to
 * @throws UsageError if several ranks would run on the CPU unasked
 */
export function refuseAccidentalCpu(
  { ranks, device }: { readonly ranks: number; readonly device: string | undefined },
  kind: LibraryKind,
): void {
  if (ranks === 1 || kind === 'cuda' || device === 'cpu') return;
  throw new UsageError(
    `--gpus ${ranks}, but they would run on the CPU here: \`npm run gpt2 -- doctor\` says why; --device cpu tries ranks without GPUs`,
  );
}

/** Each would choose by what its own GPU has free. @throws UsageError */
export function refuseAutoBatch(batch: number | 'auto' | undefined, ranks: number): void {
  if (batch !== 'auto' || ranks === 1) return;
  throw new UsageError('--batch auto is for one GPU; give --batch a number with --gpus');
}
