// The questions that --hellaswag-every asks while a run trains: opened with the run, so that what is wrong with them is known
// before step 0. Asking them is milestones.ts's.
import { type Hellaswag, readHellaswag } from '../evaluate/hellaswag.ts';
import type { ModelConfig } from '../model/config.ts';
import type { SettledOptions } from './options.ts';

/** The questions of --hellaswag, if they are wanted. @throws Gpt2Error if they are damaged or not for this model */
export function openHellaswag(
  { hellaswagEvery, hellaswag: path, sequence }: SettledOptions,
  { vocabularySize }: ModelConfig,
  notice: (text: string) => void,
): Hellaswag | undefined {
  if (hellaswagEvery === 0) return undefined;
  const hellaswag = readHellaswag(path, { sequence, vocabularySize });
  const { cut, rows } = hellaswag;
  if (cut > 0) {
    notice(`hellaswag: ${cut} of ${rows.length} rows are over --seq ${sequence}: their contexts lose their beginning`);
  }
  return hellaswag;
}
