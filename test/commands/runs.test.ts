// `runs` as a user calls it: the table, its order, JSON; and the newest run, which `report` takes.
import { constants, mkdirSync, readFileSync, utimesSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { lockRun } from '../../src/runs/lock.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { writtenModel } from '../checkpoint/trained-model.ts';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { command, quiet, spawned, withCode, workplace } from '../support/cli.ts';
import { tinyConfig } from '../support/tiny-model.ts';

const place = workplace();
beforeAll(() => {
  const long = 'tinyshakespeare-d6-2026-11-22-193355';
  const later = { ...runEvent({ data: 'data/tinyshakespeare', ranks: 2 }), time: '2026-02-03T04:05:06Z' };
  writeRun(long, [later, trainEvent(0, 9.5), { event: 'val', step: 1, loss: 9.25 }]);
  writeRun('sweep/lr=1', [
    runEvent({ data: 'own', model: 'runs/d12', totalBatch: 1000 }),
    ...[0, 1, 2].map((step) => ({ ...trainEvent(step, 3), ms: 2 })),
    { event: 'val', step: 3, loss: 2.5 },
    { event: 'done', steps: 3, seconds: 1, weights: 'x' },
  ]);
  writeRun('failed', [
    { ...runEvent({ model: 'custom', layers: 7, saveEvery: '10m' }), time: '2026-01-01T00:01:00Z' },
    { event: 'val', step: 0, loss: Number.NaN },
    { event: 'nonFinite', step: 0, loss: Number.NaN, norm: 1, finding: 'NaN in layer 3' },
  ]);
  writeRun('damaged', []);
  place.file('runs/failed/checkpoints/file', Buffer.alloc(3_000_000));
  utimesSync(place.path('runs/sweep/lr=1/log.jsonl'), 2e9, 2e9);
});

const writeRun = (name: string, events: readonly RunEvent[]) => writeLog(place.path('runs', name), events);

it('lists runs, those of a sweep too, the newest first, with names in full', async () => {
  const lock = lockRun(place.path('runs/tinyshakespeare-d6-2026-11-22-193355'), constants.O_RDWR)!;
  const { code, stdout, stderr } = await place.here(['runs']);
  lock.close();
  expect(stdout.replace(/ [\d.]+K$/m, ' 1.50K')).toBe(`\
run                                       started       model             data  steps   train     val  tok/s     state   size
tinyshakespeare-d6-2026-11-22-193355  02-03 04:05          d6  tinyshakespeare  1/400  9.5000  9.2500   256K   running   790B
failed                                01-01 00:01  l7-c384-h6  tinyshakespeare  0/400       -     NaN      -    failed  2.86M
sweep/lr=1                            01-01 00:00         d12              own  3/400  3.0000  2.5000   500K  finished  1.50K
`);
  expect(stderr).toMatch(/^left out: runs\/damaged\/log\.jsonl has no "run" line/);
  expect(code).toBe(0);
});

it('in a narrow terminal shortens other names than those of runs', () => {
  const shell = `stty cols 80; ${[process.execPath, ...command, 'runs'].join(' ')}`;
  const { stdout } = spawned('script', ['-qc', shell, '/dev/null'], { cwd: place.folder });
  expect(stdout).toMatch(/^tinyshakespeare-d6-2026-11-22-193355 .* tiny…eare /m);
});

it('--sort by any column, losses the least first, --json with names in full', async () => {
  const names = async (sort: string) => {
    const { stdout } = await place.okHere(`runs --json --sort ${sort}`);
    return JSON.parse(stdout).runs.map(({ run }: { run: string }) => run);
  };
  const [long, swept, failed] = ['runs/tinyshakespeare-d6-2026-11-22-193355', 'runs/sweep/lr=1', 'runs/failed'];
  expect(await names('started')).toEqual([long, failed, swept]);
  expect(await names('val')).toEqual([swept, long, failed]);
  const { stderr } = await place.here('runs --sort val');
  expect(stderr).toContain('cannot be compared: sorted within each of 2 data sets\n');
  expect(await names('tok/s')).toEqual([swept, long, failed]);
  expect((await names('size'))[0]).toBe(failed);
  expect(await names('run')).toEqual([failed, swept, long]);
  expect(JSON.parse((await place.here(['runs', 'runs/sweep', '--json'])).stdout).runs).toEqual([
    {
      ...{ run: swept, started: '2026-01-01T00:00:00Z', model: 'runs/d12', data: 'own', steps: 3, ofSteps: 400 },
      ...{ train: 3, val: 2.5, bitsPerByte: null, tokensPerSecond: 500_000, state: 'finished', behind: null },
      bytes: expect.any(Number),
    },
  ]);
});

it('compare takes the runs of a folder, those of a sweep too', async () => {
  const { stdout } = await place.okHere('compare runs/sweep runs/failed runs/tinyshakespeare-d6-2026-11-22-193355');
  expect(stdout).toMatch(/^Ranking[^\n]* within each data set: [\s\S]*\nlr=1 /);
});

it('a folder without runs', async () => {
  mkdirSync(place.path('none'));
  expect(quiet(await place.here('runs none'))).toMatch(/^no runs in none; (npx gpt2|npm run) train starts one\n$/);
});

const isNone = /^nope does not exist; name a folder/;
const isFolder = /^runs\/sweep is a folder of runs: name one/;
const isUnsaved = /^runs\/sweep\/lr=1 has no checkpoint: the run ended before it saved one; continue with /;
it.each([
  ['runs nope', /^nope does not exist; name a folder of runs$/],
  ['compare nope', isNone],
  ['report nope', isNone],
  ['compare runs/damaged', /^runs\/damaged\/log.jsonl has no "run" line/],
  ['report runs/', /^runs\/ is a folder of runs: .*; `compare` takes the folder$/],
  ['sample --model runs', /^runs is a folder of runs: .* runs\/sweep\/lr=1, which has the lowest val.* loss \(2\.5/],
  ['eval --model runs/sweep', /^runs\/sweep is a folder of runs: name one of them, such as runs\/sweep\/lr=1,/],
  ['export --format hf --out x --model runs/sweep', isFolder],
  ['train --model runs/sweep', isFolder],
  [
    'sample --model runs/failed',
    /^runs\/failed has no checkpoint: the run ended before it saved one; continue with --out runs\/failed --resume, or/,
  ],
  // Without --model: the newest run.
  ['sample', isUnsaved],
  ['eval', isUnsaved],
  ['export --format hf --out x', isUnsaved],
])('gpt2 %s is refused in one line', async (line, message) => {
  const { stderr } = withCode(1, await place.here(line));
  expect(stderr.trimEnd()).toMatch(message);
  expect(stderr.trimEnd()).not.toContain('\n');
});

it.each(['sample', 'eval', 'export --format hf --out x', 'train --out x'])(
  'gpt2 %s --model of a run that has not saved yet: when it saves, and how to save now',
  async (line) => {
    const lock = lockRun(place.path('runs/failed'), constants.O_RDWR)!;
    const { stderr } = withCode(1, await place.here(`${line} --model runs/failed`));
    lock.close();
    expect(stderr).toMatch(
      /^runs\/failed has no checkpoint yet: the run saves every 10m and at its end \(--save-every\); wait, stop it with Ctrl-C, which saves too, or name another\n$/,
    );
  },
);

it.each(['runs cut', 'compare cut/a', 'compare cut/a cut/b', 'compare cut', 'report cut/a'])(
  'gpt2 %s: a log that ends before the checkpoint lacks steps',
  async (line) => {
    // The last start of c continued from an older checkpoint.
    const times = { a: '2026-01-01T00:00:00Z', b: '2026-01-01T00:00:00Z', c: '2100-01-01T00:00:00Z' };
    for (const [name, time] of Object.entries(times)) {
      writeLog(place.path('cut', name), [{ ...runEvent({ seed: 7 }), time }, trainEvent(0, 3)]);
      if (name !== 'b') writtenModel(place.path('cut', name, 'checkpoints'), tinyConfig, undefined, 3);
    }
    const { stdout, stderr } = await place.okHere(line);
    const report = line.startsWith('report') ? readFileSync(place.path('cut/a/report.html'), 'utf8') : '';
    expect(stdout + stderr + report).toContain('its log lacks 2 of the 3 steps done');
    expect(stdout + stderr).not.toContain('c: its log');
  },
);

it('report takes the run whose log was written last, and names it', async () => {
  const { stdout, stderr } = await place.okHere('report');
  expect(stdout).toBe('report: runs/sweep/lr=1/report.html\n');
  expect(stderr).toBe('newest run: runs/sweep/lr=1\n');
  expect(readFileSync(place.path('runs/sweep/lr=1/report.html'), 'utf8')).toContain('<title>lr=1</title>');
});
