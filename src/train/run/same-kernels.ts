// Checks that a run resumes with the kernels it was trained with.
import { gpt2Error, words } from '../../base/errors.ts';

/**
 * @param before the hashes that the run recorded, and `now` those of the files; undefined: no kernels
 * @throws Gpt2Error if they differ
 */
export function checkSameKernels(
  out: string,
  before: unknown,
  now: string | undefined,
  folders: readonly string[] = [],
): void {
  if (before === now) return;
  const fix =
    before === undefined ? words`leave out --kernel` : `restore the files of ${folders.join(', ') || 'its kernels'}`;
  throw gpt2Error`cannot resume ${out} with other kernels: it was trained with ${before ?? 'none'}, now there are ${now ?? 'none'}; ${fix}, or start another run`;
}
