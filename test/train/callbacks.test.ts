// An error of a function that a program gives to `train` ends the run saved, and is what `train` throws.
import { setTimeout } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { listCheckpoints, readRun, type TrainHooks, train, trainEvents } from '../../src/index.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { tinyRun } from '../support/tiny-run.ts';

const steps = 6;
const error = new Error('no connection', { cause: 'the cable' });

const place = workplace();
beforeAll(async () => {
  place.data({ vocabulary: 100 });
  await train(optionsOf('whole'));
});

const optionsOf = (out: string) => ({ ...tinyRun, data: place.path('data'), out: place.path(out), steps });
const fail = () => {
  throw error;
};
const reject: () => void = async () => {
  await setTimeout(1);
  throw error;
};
type OnEvent = NonNullable<TrainHooks['onEvent']>;
const at =
  (isDue: (event: Parameters<OnEvent>[0]) => boolean, end: () => void): OnEvent =>
  (event) =>
    isDue(event) ? end() : undefined;

it.each<[name: string, hooks: TrainHooks, saved?: number]>([
  ['onEvent throws', { onEvent: at((event) => event.event === 'train' && event.step === 2, fail) }, 3],
  ['onEvent rejects', { onEvent: at((event) => event.event === 'train' && event.step === 2, reject) }],
  ['onEvent throws at every event', { onEvent: fail }, 0],
  ['onEvent rejects at the end', { onEvent: at(({ event }) => event === 'done', reject) }, steps],
  ['onEvent throws, with a signal', { onEvent: fail, signal: new AbortController().signal }, 0],
  ['onStart throws', { onStart: fail }, 0],
  ['onStart rejects', { onStart: reject }],
])('%s', async (name, hooks, saved) => {
  const notices: string[] = [];
  await expect(train(optionsOf(name), { onNotice: (text) => notices.push(text), ...hooks })).rejects.toBe(error);
  expect(listCheckpoints(place.path(name, 'checkpoints'))).toHaveLength(1);
  const { step } = readRun(place.path(name)).events.findLast(({ event }) => event === 'checkpoint') as { step: number };
  if (saved !== undefined) expect(step).toBe(saved);
  if (step < steps) expect(notices.join()).toMatch(`stopped after ${step} of ${steps} steps and saved`);
  await train({ out: place.path(name), resume: true });
  expect(figuresOf(place.path(name))).toEqual(figuresOf(place.path('whole')));
});

it('calls methods of an object, also those of its class', async () => {
  class Counter {
    readonly #of = { trained: 0 };
    readonly count = 0;
    onNotice() {}
    onEvent({ event }: Parameters<OnEvent>[0]) {
      if (event === 'train') this.#of.trained++;
    }
    get trained() {
      return this.#of.trained;
    }
  }
  const hooks = new Counter();
  await train(optionsOf('methods'), hooks);
  expect(hooks.trained).toBe(steps);
});

it('waits for what onNotice does with the message of an error', async () => {
  let told = '';
  const onNotice: (text: string) => void = async (text) => {
    await setTimeout(1);
    told = text;
  };
  await expect(train(optionsOf('awaited'), { onStart: fail, onNotice })).rejects.toBe(error);
  expect(told).toMatch(`stopped after 0 of ${steps} steps and saved`);
});

it('onNotice throws', async () => {
  const data = place.data({ name: 'short', val: 9, vocabulary: 100 });
  await expect(train({ ...optionsOf('noticed'), data, valEvery: 1 }, { onNotice: fail })).rejects.toBe(error);
  expect(readRun(place.path('noticed')).events.at(-1)).toMatchObject({ event: 'checkpoint', step: 0 });
});

it('a function of trainEvents throws', async () => {
  const events = trainEvents(optionsOf('iterated'), { onStart: fail });
  const all = async () => {
    for await (const _ of events);
  };
  await expect(all()).rejects.toBe(error);
  expect(readRun(place.path('iterated')).events.at(-1)).toMatchObject({ event: 'checkpoint', step: 0 });
});

it.each(['signal', 'onEvent'] as const)('trainEvents refuses %s', async (name) => {
  const hooks: TrainHooks = { signal: AbortSignal.abort(), onEvent: () => {} };
  const events = trainEvents(optionsOf('refused'), { [name]: hooks[name] });
  await expect(events.next()).rejects.toThrow(`trainEvents() takes no ${name}: it yields the events`);
});
