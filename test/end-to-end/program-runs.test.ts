// Runs whose schedule, optimizer, batches and validation a program gives: killed and resumed with the same bits, divided into
// micro-batches and ranks with the same losses, refused where they cannot go on.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { inspect } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { AdamW, type Batches, type ProgramOptions, readRun, train } from '../../src/index.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { recordedValue } from '../../src/options/configuration.ts';
import { moduleLoader, programOf, root } from '../support/built.ts';
import { workplace } from '../support/cli.ts';
import { eventsOf, figuresOf } from '../support/figures.ts';
import { freePort } from '../support/ranks.ts';
import { rounds, seed } from '../support/rounds.ts';
import { noticesOf, tinyRun } from '../support/tiny-run.ts';

const place = workplace();
let program: string;
beforeAll(async () => {
  place.data({ vocabulary: 100 });
  program = await programOf(`${root}test/support/program-run.ts`);
});

/** Starts the program in the folder. @param onTrain is called after each step */
async function runProgram(options: object, environment = {}, onTrain = (_: () => void) => {}): Promise<number | null> {
  const given = JSON.stringify({ data: place.path('data'), ...options });
  const child = spawn(process.execPath, [...moduleLoader, program, given], {
    ...{ cwd: place.folder, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...environment } },
  });
  createInterface(child.stdout!).on('line', (line) => {
    if (line === 'train') onTrain(() => child.kill('SIGKILL'));
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return code;
}

it('killed 10 times and resumed, a run has the bits of an unbroken one', async () => {
  const kills = 10 * rounds;
  const random = new Random(seed);
  const options = { batch: 2, steps: 12 * kills, saveEvery: 2, keep: 2 };
  expect(await runProgram({ ...options, out: 'straight' })).toBe(0);
  for (let kill = 0; kill < kills; kill++) {
    let left = 2 + Math.floor(random.uniform() * 5);
    const killed = { ...options, out: 'killed', resume: 'auto', pause: 5 };
    expect(await runProgram(killed, {}, (end) => left-- === 0 && end()), `kill ${kill}`).toBe(null);
  }
  expect(await runProgram({ ...options, out: 'killed', resume: 'auto' })).toBe(0);
  const figures = figuresOf(place.path('straight'));
  expect(figuresOf(place.path('killed'))).toEqual(figures);
  const { configuration } = eventsOf(place.path('killed'), 'run')[0]!;
  const ofProgram = { schedule: 'of the program', optimizer: 'of the program', batches: 'of the program' };
  expect(configuration).toMatchObject({ ...ofProgram, validation: 'of the program' });
  for (const name of ['learningRate', 'warmup', 'weightDecay', 'beta1', 'muonLearningRate']) {
    expect(configuration).not.toHaveProperty(name);
    expect(recordedValue(configuration as never, name)).toBe(undefined);
  }
  expect(place.run(['train', '--resume', '--out', 'killed', '--steps', '500']).stderr).toContain(
    'was trained with schedule, optimizer, batches, validation of a program: resume it from',
  );
});

it('micro-batches and ranks that share a step agree, also where targets are -1', async () => {
  const options = { steps: 6, keep: 1 };
  const job = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${await freePort()}`, WORLD_SIZE: '2', LOCAL_WORLD_SIZE: '2' };
  for (const batch of [4, 2, 1]) expect(await runProgram({ ...options, batch, out: `batch-${batch}` })).toBe(0);
  for (const more of [{ steps: 4 }, { resume: true }]) {
    const ranks = ['0', '1'].map((rank) =>
      runProgram({ ...options, batch: 2, out: 'ranks', ...more }, { ...job, RANK: rank, LOCAL_RANK: rank }),
    );
    expect(await Promise.all(ranks)).toEqual([0, 0]);
  }
  const wanted = readRun(place.path('batch-4')).series;
  for (const out of ['batch-2', 'batch-1', 'ranks']) {
    const { series } = readRun(place.path(out));
    for (const name of ['train', 'norm'] as const) {
      expect(series[name].map(([step]) => step)).toEqual(wanted[name].map(([step]) => step));
      for (const [index, [, value]] of series[name].entries()) {
        // Sums in another order.
        expect(Math.abs(value / wanted[name][index]![1] - 1)).toBeLessThan(2e-6);
      }
    }
  }
});

const tokens = new Int32Array(32).fill(7);
const good = { inputs: tokens, targets: tokens };
/** Batches of which the one at `at` is another. */
function batchesWith(other: () => unknown, at = 2): Batches {
  let read = 0;
  return { next: () => (read++ === at ? (other() as typeof good) : good) };
}
const fail = (thrown: unknown = new Error('no connection')): never => {
  throw thrown;
};
const short = { inputs: tokens.subarray(1), targets: tokens };
const none = { inputs: tokens, targets: new Int32Array(32).fill(-1) };

const decay = { weightDecay: 0 };
const rate = (of: (step: number) => number) => ({ schedule: of });
const rateOf2 = (of: () => number) => rate((step) => (step === 2 ? of() : 1e-3));
const batches = (other: () => unknown, at?: number) => ({ batches: batchesWith(other, at) });
const validation = (bad: () => unknown, at: number) => ({ validation: batchesWith(bad, at), valEvery: 2, valSteps: 1 });
const optionsOf = (parts: object, name: string) =>
  ({ ...tinyRun, data: place.path('data'), out: place.path(name), steps: 4, ...parts }) as ProgramOptions;
const start = (parts: object, name: string) => train(optionsOf(parts, name));

describe('refusals', () => {
  it.each<[message: string, parts: object]>([
    ['the learning rate of step 2 takes a number of at least 0, not NaN', rateOf2(() => Number.NaN)],
    ['the learning rate of step 2 takes a number of at least 0, not -1', rate((step) => 1 - step)],
    ['the learning rate of step 2 takes a number from 0 to 3.4028234663852886e+38, not 1e+39', rateOf2(() => 1e39)],
    ['no rate', rateOf2(() => fail(new Error('no rate')))],
    ['no connection', batches(() => fail())],
    ["step 2: a batch's inputs must be 1 x 32 = 32 tokens, not 31", batches(() => short)],
    ['next() of batches must return { inputs, targets }, not a Promise (it is not awaited)', batches(async () => good)],
    ['next() of batches must return { inputs, targets }, not { done: false }', batches(() => ({ done: false }))],
    ["the program threw 'no error'", batches(() => fail('no error'))],
    ['step 2 has no target to learn from: all are -1', batches(() => none)],
    ["the validation of step 2: a batch's inputs must be 1 x 32 = 32 tokens, not 31", validation(() => short, 1)],
    ['the validation has no target to predict: all are -1', validation(() => none, 1)],
  ])('%s, saved: %#', async (message, parts) => {
    await expect(start(parts, `saved-${message.replaceAll(/\W/g, '')}`)).rejects.toThrow(
      `${message}; stopped after 2 of 4 steps and saved`,
    );
  });

  it.each<[message: string, parts: object]>([
    ['schedule takes a function, not an object', { schedule: {} }],
    ['optimizer takes an Optimizer for every parameter, not an object', { optimizer: {} }],
    ['optimizer takes an Optimizer for every parameter, not the class AdamW', { optimizer: AdamW }],
    ['batches takes an object or a function, not "file"', { batches: 'file' }],
    ['batches must be an object with next(), or a function of { rank, ranks } that returns one', { batches: {} }],
    ['batches has only one of position() and seek()', { batches: { next: () => good, seek() {} } }],
    ...[new Map([[1, 2]]), 1n, Number.NaN, undefined].map((at): [string, object] => [
      `position() of batches must return plain JSON, not ${inspect(at)}`,
      { batches: { next: () => good, seek() {}, position: () => at } },
    ]),
    ["warmup has no effect with the program's schedule; leave out warmup", { ...rate(() => 1), warmup: 1 }],
    ["learningRate has no effect with the program's schedule", { ...rate(() => 1), learningRate: 1 }],
    ["beta1 has no effect with the program's optimizer; leave out beta1", { optimizer: new AdamW(decay), beta1: 0.8 }],
    ["order has no effect with the program's batches; leave out order", { ...batches(() => fail()), order: 'file' }],
    ["valTokens has no effect with the program's validation", { validation: batchesWith(fail), valTokens: 32 }],
    ['validation has no effect with valEvery 0', { validation: batchesWith(fail) }],
    ['the batches of a program have no end; give steps', { ...batches(() => fail()), steps: undefined }],
    [
      'cannot be read again; batches of a program are not captured; saved the state before the step; the run cannot be resumed, because its batches cannot be read again: start one with another --out and smaller rates, or --skip-spikes Z',
      { batches: batchesWith(() => fail(), 9), ...rate(() => 1e30) },
    ],
  ])('%s', async (message, parts) => {
    await expect(start(parts, 'refused')).rejects.toThrow(message);
  });

  it('of a first batch, after which the corrected program starts in the same folder', async () => {
    const wrong = batches(() => short, 0);
    await expect(start(wrong, 'first')).rejects.toThrow('stopped before the first step, so that nothing was saved');
    const right = batches(() => good);
    expect(await start(right, 'first')).toMatchObject({ steps: 4 });
  });

  it('of a resume: without seek, which a notice and the end say; without the parts, with parts that the run did not have', async () => {
    const given = { batches: batchesWith(() => fail(), 9), validation: batchesWith(() => fail(), 99) };
    const notices = await noticesOf(optionsOf({ ...given, stopAfter: 2, valEvery: 4, valSteps: 1 }, 'no-seek'));
    const isOnce = 'without position() and seek(): the run cannot be resumed';
    expect(notices).toEqual([
      `batches ${isOnce}`,
      `validation ${isOnce}, and each validation reads other batches`,
      'stopped after 2 of 4 steps and saved, as --stop-after says; the run cannot be resumed, because its batches cannot be read again: start one with another --out',
    ]);
    const optimizer = new AdamW({ weightDecay: 0 });
    for (const [parts, message] of [
      [given, 'batches of the program: no seek(position), so its batches cannot be read again'],
      [{}, 'was trained with batches, validation of a program: resume it from that program'],
      [{ ...given, optimizer }, 'was trained without optimizer of a program: start another run'],
    ] as const) {
      await expect(start({ ...parts, resume: true }, 'no-seek')).rejects.toThrow(message);
    }
    await expect(start({ config: place.path('no-seek') }, 'other')).rejects.toThrow('was trained with batches');
  });
});
