// A run whose folder or log is removed, moved or replaced while it trains: it stops at the next save, saved in a folder beside,
// from which it goes on to the same bits; what stands in its place by then is left alone.
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { BackgroundWriter } from '../../src/checkpoint/background.ts';
import { resolveCheckpoint, verifyCheckpoint } from '../../src/checkpoint/directory.ts';
import { Gpt2Error } from '../../src/errors.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { train } from '../../src/train/train.ts';
import { tinyModel, Workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { rankData, tinyRanks } from '../support/ranks.ts';

// Each test is seconds of work, on a busy machine minutes.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

let place: Workplace;
let given: TrainOptions;
let straight: readonly string[];
beforeAll(async () => {
  place = new Workplace();
  place.data({ vocabulary: 100 });
  given = {
    ...{ device: 'cpu', layers: 1, channels: 32, heads: 2, context: 32, batch: 1, sequence: 32, threads: 1 },
    ...{ valEvery: 0, sampleEvery: 0, saveEvery: 5, steps: 12, data: place.path('data') },
  };
  await train({ ...given, out: place.path('straight') });
  straight = figuresOf(place.path('straight'));
});
afterAll(() => place[Symbol.dispose]());
afterEach(() => {
  vi.restoreAllMocks();
});

const removed = 'removed or moved';
const replaced = 'replaced by another file';
/** An action on a run, what the run reports, and what stands in its place afterwards. */
const cases: [string, (out: string) => void, string, (out: string) => void][] = [
  [
    'its folder removed',
    (out) => rmSync(out, { recursive: true }),
    removed,
    (out) => expect(existsSync(out)).toBe(false),
  ],
  [
    'its folder moved',
    (out) => renameSync(out, `${out}-moved`),
    removed,
    (out) => {
      expect(existsSync(out)).toBe(false);
      expect(readFileSync(join(`${out}-moved`, 'log.jsonl'), 'utf8')).toContain('"event":"train","step":3,');
    },
  ],
  [
    'its log removed',
    (out) => rmSync(join(out, 'log.jsonl')),
    removed,
    (out) => expect(existsSync(join(out, 'log.jsonl'))).toBe(false),
  ],
  [
    'another file in place of its log',
    (out) => {
      writeFileSync(join(out, 'edited'), 'of an editor');
      renameSync(join(out, 'edited'), join(out, 'log.jsonl'));
    },
    replaced,
    (out) => expect(readFileSync(join(out, 'log.jsonl'), 'utf8')).toBe('of an editor'),
  ],
];

/** Trains, and does something to the run folder when an event is told. */
async function trainUntil(
  out: string,
  isWhen: (event: RunEvent) => boolean,
  take: (out: string) => void,
  saveEvery = 5,
  notices: string[] = [],
) {
  let isTaken = false;
  const onEvent = (event: RunEvent) => {
    if (isTaken || !isWhen(event)) return;
    isTaken = true;
    take(out);
  };
  const error = await train({ ...given, saveEvery, out }, { onEvent, onNotice: (text) => notices.push(text) }).catch(
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(Gpt2Error);
  return error as Gpt2Error;
}

async function expectRescued(out: string, error: Gpt2Error, step: number, how = removed): Promise<void> {
  const rescued = `${out}-rescued`;
  expect(error.message).toBe(
    `${join(out, 'log.jsonl')} was ${how} during the run: stopped after ${step} of 12 steps and saved in ${rescued}; continue with --out ${rescued} --resume`,
  );
  expect(error.exitCode).toBe(1);
  expect(resolveCheckpoint(rescued).manifest.step).toBe(step);
  await train({ out: rescued, resume: true });
  expect(figuresOf(rescued)).toEqual(straight);
}

describe.each(cases)('%s', (name, take, how, afterwards) => {
  it.each([
    [3, 5, 5],
    [11, 12, 0],
  ])('in step %i: it stops after step %i, saved beside', async (at, step, saveEvery) => {
    const out = place.path(`${name.replaceAll(' ', '-')}-${at}`);
    let saved: string[] = [];
    const error = await trainUntil(
      out,
      (event) => event.event === 'train' && event.step === at,
      (run) => {
        take(run);
        if (existsSync(join(run, 'checkpoints'))) saved = readdirSync(join(run, 'checkpoints'));
      },
      saveEvery,
    );
    afterwards(out);
    if (existsSync(join(out, 'checkpoints'))) expect(readdirSync(join(out, 'checkpoints'))).toEqual(saved);
    await expectRescued(out, error, step, how);
  });
});

it.each([
  ['after its last save', 'removed'],
  ['after its last save', 'moved'],
])('its folder, %s, %s: it is saved beside', async (_, how) => {
  const out = place.path(`done-${how}`);
  const error = await trainUntil(
    out,
    ({ event }) => event === 'done',
    (run) => (how === 'moved' ? renameSync(run, `${run}-moved`) : rmSync(run, { recursive: true })),
  );
  await expectRescued(out, error, 12);
});

it.each([
  ['and nothing is in its place', (out: string) => rmSync(out, { recursive: true })],
  [
    'and cannot be made again',
    (out: string) => {
      rmSync(out, { recursive: true });
      writeFileSync(out, 'a file');
    },
  ],
])('its folder removed while the last save is written, %s: it is saved beside', async (name, take) => {
  const out = place.path(`writing-${name.replaceAll(' ', '-')}`);
  const write = BackgroundWriter.prototype.write;
  let isTaken = false;
  vi.spyOn(BackgroundWriter.prototype, 'write').mockImplementation(function (this: BackgroundWriter, head, ...rest) {
    if (head.step === 12 && !isTaken) {
      isTaken = true;
      take(out);
    }
    return write.call(this, head, ...rest);
  });
  const error = await trainUntil(out, () => false, take);
  expect(existsSync(join(out, 'checkpoints'))).toBe(false);
  await expectRescued(out, error, 12);
});

it('with nowhere to save it trains on, and says so', async () => {
  const parent = place.path('parent');
  const notices: string[] = [];
  const error = await trainUntil(
    join(parent, 'run'),
    ({ event }) => event === 'train',
    () => {
      rmSync(parent, { recursive: true });
      writeFileSync(parent, 'a file');
    },
    5,
    notices,
  );
  expect(notices).toEqual(
    [5, 10].map((step) => expect.stringContaining(`step ${step} was not saved; training continues: `)),
  );
  const log = join(parent, 'run', 'log.jsonl');
  expect(error.message).toMatch(
    new RegExp(
      `^${log} was removed or moved during the run, and the run could not be saved next to it: cannot write the run folder `,
    ),
  );
});

it('a second time goes to a folder of its own', async () => {
  const out = place.path('twice');
  const at = (step: number) => (event: RunEvent) => event.event === 'train' && event.step === step;
  const take = (run: string) => rmSync(run, { recursive: true });
  await trainUntil(out, at(3), take);
  const error = await trainUntil(out, at(7), take);
  expect(error.message).toContain(`saved in ${out}-rescued-2;`);
  expect([`${out}-rescued`, `${out}-rescued-2`].map((run) => resolveCheckpoint(run).manifest.step)).toEqual([5, 10]);
});

const endless = [
  ...tinyModel,
  ...'--data data --val-every 0 --sample-every 0 --batch 1 --seq 32 --threads 1'.split(' '),
];

async function running(args: readonly string[], folder: string) {
  const child = place.start(['train', ...args, '--steps', '1000000', '--out', folder]);
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  }
  const closed = once(child, 'close') as Promise<[number | null]>;
  const log = place.path(folder, 'log.jsonl');
  while (!existsSync(log) || !readFileSync(log, 'utf8').includes('"event":"train"')) {
    expect(child.exitCode, said).toBeNull();
    await setTimeout(20);
  }
  return { child, closed, said: () => said };
}

it('its log removed: a second run is refused all the same, and a run that is asked to stop says what happened', async () => {
  const { child, closed, said } = await running(endless, 'lone');
  rmSync(place.path('lone', 'log.jsonl'));
  for (const how of [['--overwrite', ...endless], ['--resume'], endless]) {
    const { code, stderr } = place.run(['train', '--out', 'lone', ...how]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^another process is writing lone; /)]);
  }
  child.kill('SIGTERM');
  expect(await closed, said()).toEqual([1, null]);
  expect(said()).toMatch(/^lone\/log\.jsonl was removed or moved during the run: stopped after \d+ of 1000000 /m);
  expect(existsSync(place.path('lone', 'checkpoints'))).toBe(false);
  verifyCheckpoint(resolveCheckpoint(place.path('lone-rescued')).path);
});

it('its folder moved, a second run in its place: each has its own checkpoints', async () => {
  const { closed, said } = await running([...endless, '--save-every', '200'], 'shared');
  renameSync(place.path('shared'), place.path('moved'));
  const second = place.run(['train', ...endless, '--steps', '4', '--out', 'shared']);
  expect(second.code, second.stderr).toBe(0);
  expect(await closed, said()).toEqual([1, null]);
  expect(readdirSync(place.path('shared', 'checkpoints'))).toEqual(['step-00000004']);
  expect(readFileSync(place.path('shared', 'log.jsonl'), 'utf8').match(/"event":"run"/g)?.length).toBe(1);
  expect(said()).toMatch(/shared\/log\.jsonl was (removed or moved|replaced by another file) during the run/);
  verifyCheckpoint(resolveCheckpoint(place.path('shared-rescued')).path);
});

it.each([0, 1])('of two ranks, ZeRO %i, its folder removed: what all have is saved beside', async (zero) => {
  using other = new Workplace();
  rankData(other);
  const [mine, folder] = [place, `ranks-${zero}`];
  place = other;
  try {
    const args = [...tinyRanks, ...`--gpus 2 --zero ${zero} --batch 1 --val-every 0 --save-every 100`.split(' ')];
    const { closed, said } = await running(args, folder);
    rmSync(other.path(folder), { recursive: true });
    expect(await closed, said()).toEqual([1, null]);
    expect(said()).toContain(`${folder}/log.jsonl was removed or moved during the run: stopped after `);
    expect(said()).not.toMatch(/defect/);
    const { step } = resolveCheckpoint(other.path(`${folder}-rescued`)).manifest;
    const resumed = other.run(['train', '--out', `${folder}-rescued`, '--resume', '--stop-after', String(step + 1)]);
    expect(resumed.code, resumed.stderr).toBe(0);
  } finally {
    place = mine;
  }
});
