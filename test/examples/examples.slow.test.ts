// The programs of examples/ run as their first lines say, on little data; and a run is an iteration over its events.
import { beforeAll, expect, it } from 'vitest';
import { type RunEvent, readRun, trainEvents } from '../../src/index.ts';
import { root } from '../support/built.ts';
import { spawned, tinyModel, workplace } from '../support/cli.ts';
import { tinyRun } from '../support/tiny-run.ts';

const place = workplace();
const data = place.data();

const start = (name: string, ...args: string[]) =>
  spawned(process.execPath, ['--import', 'tsx', `examples/${name}.ts`, ...args], { cwd: root });

function example(name: string, ...args: string[]): string {
  const { status, stdout, stderr } = start(name, ...args);
  expect(status, stderr).toBe(0);
  return stdout;
}

beforeAll(() => {
  place.file('letters.txt', 'abc abd abe\n'.repeat(500));
  place.ok('prepro text letters.txt --tokenizer char --workers 1');
});

it.each<[name: string, args: () => string[], printed: RegExp]>([
  ['custom-loop', () => [data, '3'], /^(\d {2}loss \d+\.\d{4} {2}norm \d+\.\d\d {2}learning rate 6\.0e-4\n){3}$/],
  ['own-loss', () => [], /^(\S+\[\d+\]: gradient -?0\.\d{5}, finite difference -?0\.\d{5}\n){4}$/],
  ['learning-rate-finder', () => [data, '8'], /^1\.00e-6 {2}5\.\d+\n(.|\n)*try \d\.\de-\d\n$/],
  // ln 7 = 1.95 for 7 characters; 5.5 for bytes.
  ['custom-loop', () => [place.path('data/letters'), '1'], /^0 {2}loss 2\.\d{4} /],
  ['learning-rate-finder', () => [place.path('data/letters'), '2'], /^1\.00e-6 {2}2\.\d{4}\n/],
])('%s prints its figures, with the vocabulary of the data (%#)', (name, args, printed) => {
  expect(example(name, ...args())).toMatch(printed);
});

it('perplexity', () => {
  place.data({ name: 'words', vocabulary: 50257 });
  place.run(`train --data words --out run ${tinyModel.join(' ')} --seq 32 --steps 2 --val-every 0`);
  place.file('text.txt', 'What light through yonder window breaks?');
  const [total, ...lines] = example('perplexity', place.path('run'), place.path('text.txt')).trim().split('\n');
  expect(total).toMatch(/^8 tokens: loss 10\.\d{4}, perplexity \d+\.\d$/);
  expect(lines.length).toBe(5);
});

it('perplexity of a run with another tokenizer', () => {
  place.file('book.txt', 'But soft, what light through yonder window breaks? '.repeat(50));
  place.ok('prepro text book.txt --separator ? --tokenizer bytes --workers 1');
  place.run(`train --data data/book --out bytes ${tinyModel.join(' ')} --seq 16 --batch 1 --steps 1 --val-every 0`);
  const [total, first] = example('perplexity', place.path('bytes'), place.path('book.txt')).split('\n');
  expect(total).toMatch(/^64 tokens: loss 5\.\d{4}, /);
  expect(first).toMatch(/^\d\.\d\d {2}"."$/);
});

it.each([
  ['perplexity', () => [place.path('run'), place.path('empty.txt')], /empty\.txt is empty: name a file of text$/],
  ['perplexity', () => [place.path('none'), place.path('empty.txt')], /none does not exist; name a run/],
  ['perplexity', () => [place.path('run'), place.path('none.txt')], /^ENOENT: no such file .*none\.txt'$/],
  ['custom-loop', () => [place.path('none')], /none does not exist; /],
  ['learning-rate-finder', () => [place.path('none')], /none does not exist; /],
  ['perplexity', () => [], /^usage: perplexity\.ts RUN FILE$/],
  ['learning-rate-finder', () => [data, '1'], /^a rate that rises takes at least 2 steps, not 1$/],
] as [string, () => string[], RegExp][])('%s says in one line what is wrong', (name, args, message) => {
  place.file('empty.txt', '');
  const { status, stdout, stderr } = start(name, ...args());
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr.trimEnd()).toMatch(message);
});

it('a run as an iteration: left early it stops, saved', async () => {
  const options = { ...tinyRun, data, steps: 50, out: place.path('iterated') };
  const seen: RunEvent['event'][] = [];
  for await (const event of trainEvents(options)) {
    seen.push(event.event);
    if (event.event === 'train' && event.step === 4) break;
  }
  expect(seen).toEqual(['run', 'train', 'train', 'train', 'train', 'train']);
  const { events } = readRun(place.path('iterated'));
  expect(events.at(-1)).toMatchObject({ event: 'checkpoint' });

  let last: RunEvent | undefined;
  for await (const event of trainEvents({ out: options.out, resume: true })) last = event;
  expect(last).toMatchObject({ event: 'done', steps: 50 });
  await expect(async () => {
    for await (const _ of trainEvents({ ...options, order: 'llmc', batch: 50_000, out: place.path('none') }))
      expect.unreachable();
  }).rejects.toThrow(/too few/);
});
