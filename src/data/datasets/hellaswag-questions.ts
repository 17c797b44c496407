// Converts HellaSwag's published questions (Zellers et al. 2019), one JSON object per line, to tokens in llm.c's format, byte for
// byte as llm.c's script does. The questions are not training text, so datasets.ts does not list them.
import { existsSync, readFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import * as z from 'zod';
import { explained, Gpt2Error, gpt2Error, words } from '../../base/errors.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { decodeUtf8, parseJson } from '../../base/files/strict-text.ts';
import { encode } from '../../tokenizer/tokenizer.ts';
import { type Question, writeQuestions } from '../shards/multiple-choice.ts';
import { writingTo } from '../standing.ts';
import { inDatasets } from './dataset.ts';

const url = 'https://raw.githubusercontent.com/rowanz/hellaswag/master/data/hellaswag_val.jsonl';

const lineSchema = z.object({
  ctx: z.string().min(1),
  endings: z.array(z.string()).min(2),
  /** Index of the right ending: a number in the published file, a text of digits in other copies. */
  label: z.union([z.int().nonnegative(), z.string().regex(/^\d+$/).transform(Number)]),
});

/**
 * Writes the file of questions to the folder `out` (default data/hellaswag): hellaswag_val.bin for the published hellaswag_val.jsonl.
 * @param from the published file; default: hellaswag/hellaswag_val.jsonl in the folder GPT2_DATASETS
 * @throws Gpt2Error if `from` does not exist, a line is not a question, or the file cannot be written
 */
export function prepareHellaswag({ from, out }: { from?: string; out?: string } = {}) {
  const source = from ?? findSource();
  const text = explained(`the questions ${source} cannot be read`, words`name the published file with --from`, () =>
    decodeUtf8(readFileSync(source)),
  );
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const questions = lines.map((line, index) => toQuestion(line, `line ${index + 1} of ${source}`));
  if (questions.length === 0)
    throw gpt2Error`${source} has no questions: it is empty; name the published file with --from`;
  const folder = out ?? join('data', 'hellaswag');
  writingTo(folder, () => makeFolder(folder));
  const path = join(folder, `${basename(source, extname(source))}.bin`);
  writeQuestions(path, questions);
  return { path, questions: questions.length };
}

function findSource(): string {
  const local = inDatasets(join('hellaswag', 'hellaswag_val.jsonl'));
  if (local && existsSync(local)) return local;
  throw gpt2Error`GPT2_DATASETS has no hellaswag/hellaswag_val.jsonl: download ${url} and name the file with --from`;
}

function toQuestion(line: string, place: string): Question {
  let parsed: z.infer<typeof lineSchema>;
  try {
    parsed = lineSchema.parse(parseJson(line));
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : `it is not JSON: ${(cause as Error).message}`;
    throw new Gpt2Error(
      words`${place} is not a question with ctx, endings and label: ${reason}; name the published file with --from`,
      { cause },
    );
  }
  const { ctx, endings, label } = parsed;
  if (label >= endings.length)
    throw gpt2Error`${place} has the label ${label} for ${endings.length} endings; name the published file with --from`;
  const tokens = (text: string) => explained(place, undefined, () => Uint16Array.from(encode(text)));
  // A space precedes the ending, because GPT-2's tokens of words begin with a space.
  return { label, context: tokens(ctx), completions: endings.map((ending) => tokens(` ${ending}`)) };
}
