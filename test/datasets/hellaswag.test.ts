// HellaSwag's questions: lines of the published form become the tokens that llm.c's script makes, and what is no question is
// refused by its line.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { prepareHellaswag } from '../../src/data/datasets/hellaswag-questions.ts';
import { readQuestions } from '../../src/data/shards/multiple-choice.ts';
import { decode } from '../../src/tokenizer/tokenizer.ts';
import { workplace } from '../support/cli.ts';

/** In the published form; the sentences are ours. */
const lines = [
  {
    ind: 7,
    activity_label: 'Baking',
    ctx: 'Two cooks stand at a table. one of them',
    label: 1,
    endings: ['swims away.', 'kneads the dough.', 'is a chair.', 'rains.'],
  },
  {
    ind: 9,
    ctx: 'How to fold a paper boat. Take a sheet — any size.',
    label: '0',
    endings: ['Fold it once.', 'Eat it.'],
  },
];
const jsonl = (values: readonly object[]) => `${values.map((value) => JSON.stringify(value)).join('\n')}\n`;

const place = workplace('each');
beforeEach(() => {
  vi.stubEnv('GPT2_DATASETS', '');
});

const prepare = (text: string) =>
  prepareHellaswag({ from: place.file('hellaswag_val.jsonl', text), out: place.path('out') });

it('become context, completions with the space before them, and label', () => {
  const { path, questions } = prepare(jsonl(lines));
  expect({ path, questions }).toEqual({ path: join(place.path('out'), 'hellaswag_val.bin'), questions: 2 });
  const read = readQuestions(path);
  expect(read.map(({ label }) => label)).toEqual([1, 0]);
  for (const [index, { context, completions }] of read.entries()) {
    expect(decode(context)).toBe(lines[index]!.ctx);
    expect(completions.map((tokens) => decode(tokens))).toEqual(lines[index]!.endings.map((ending) => ` ${ending}`));
  }
});

it('are found in GPT2_DATASETS', () => {
  vi.stubEnv('GPT2_DATASETS', place.folder);
  expect(() => prepareHellaswag()).toThrow(/has no hellaswag.*: download https:.* and name the file with --from/);
  place.file('hellaswag/hellaswag_val.jsonl', jsonl(lines));
  expect(prepareHellaswag({ out: place.path('out') }).questions).toBe(2);
});

describe('are refused', () => {
  it.each([
    ['no JSON', '{"ctx":', 'line 2 of .*_val.jsonl is not a question with ctx, endings and label: it is not JSON'],
    ['a field twice', '{"ctx":"a","ctx":"b"}', 'it is not JSON: it has the key "ctx" twice in one object'],
    ['no endings', JSON.stringify({ ctx: 'a', label: 0 }), 'line 2 of .* is not a question with .*: .*endings'],
    ['one ending', JSON.stringify({ ctx: 'a', label: 0, endings: ['b'] }), 'line 2 of .* is not a question'],
    ['an empty context', JSON.stringify({ ctx: '', label: 0, endings: ['b', 'c'] }), 'line 2 of .* is not a question'],
    ['no label', JSON.stringify({ ctx: 'a', endings: ['b', 'c'] }), 'line 2 of .* is not a question with .*: .*label'],
    ['an empty label', JSON.stringify({ ctx: 'a', endings: ['b', 'c'], label: '' }), 'line 2 of .* is not a question'],
    ['a label beyond', JSON.stringify({ ctx: 'a', endings: ['b', 'c'], label: 2 }), 'has the label 2 for 2 endings'],
    ['a text of another kind', 'To be, or not to be', 'it is not JSON'],
  ])('with %s', (_, line, message) => {
    expect(() => prepare(`${JSON.stringify(lines[0])}\n${line}\n`)).toThrow(new RegExp(message));
    expect(existsSync(place.path('out'))).toBe(false);
  });

  it('if there are none', () => {
    expect(() => prepare('\n\n')).toThrow('has no questions: it is empty');
    expect(() => prepareHellaswag({ from: place.path('none') })).toThrow(/the questions .*none cannot be read: ENOENT/);
  });
});

it('the command says what it made and what comes next', async () => {
  place.file('own.jsonl', jsonl(lines));
  const { stdout } = await place.okHere(['prepro', 'hellaswag', '--from', 'own.jsonl']);
  expect(stdout).toMatch(
    /^data\/hellaswag\/own\.bin: 2 questions\nnext: np.* eval .*--model runs\/\.\.\. --hellaswag data\/hellaswag\/own\.bin\n$/,
  );
  const json = await place.here(['prepro', 'hellaswag', '--from', 'own.jsonl', '--out', 'here', '--json']);
  expect(JSON.parse(json.stdout)).toEqual({ path: 'here/own.bin', questions: 2 });
});
