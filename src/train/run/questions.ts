// Opens the questions of --hellaswag-every with the run, so that faults are found before step 0. milestones.ts asks them.
import { type Hellaswag, readHellaswag } from '../../evaluate/hellaswag.ts';
import type { ModelConfig } from '../../model/config.ts';
import type { SettledOptions } from '../../options/table.ts';

/** The questions of --hellaswag; undefined without --hellaswag-every. @throws Gpt2Error if they are damaged or not for this model */
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
