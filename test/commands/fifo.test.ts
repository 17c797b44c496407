// A FIFO under the name of a file that a command reads: nobody writes it, so opening it must not wait.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { expect, it } from 'vitest';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { tinyModel, Workplace } from '../support/cli.ts';

const train =
  (...more: string[]) =>
  (place: Workplace) => {
    place.data();
    return ['train', '--data', 'data', '--out', 'run', ...more, ...steps];
  };
const steps = ['--steps', '1', '--seq', '32', '--val-every', '0', '--sample-every', '0', ...tinyModel];

it.each<[string, string, (place: Workplace) => string[]]>([
  ['a shard', 'data/x_train.bin', train()],
  ['dataset.json', 'data/dataset.json', train()],
  ['a log that is compared', 'run/log.jsonl', () => ['compare', 'run']],
  ['a log that is written', 'run/log.jsonl', train('--overwrite')],
  ['options', 'options.json', () => ['train', '--config', 'options.json']],
  [
    'the options of a run',
    'run/config.json',
    (place) => {
      place.file('run/notes', '');
      return ['train', '--out', 'run', '--resume', '--device', 'cpu'];
    },
  ],
  [
    'a reference',
    'curve.json',
    (place) => {
      writeLog(place.path('other'), [runEvent(), trainEvent(0, 1)]);
      return ['compare', 'other', '--reference', 'curve.json'];
    },
  ],
  [
    'weights of transformers',
    'model/model.safetensors',
    (place) => {
      place.file('model/config.json', JSON.stringify({ model_type: 'gpt2' }));
      return ['eval', '--model', 'model', '--device', 'cpu'];
    },
  ],
])('%s', (_, name, argumentsIn) => {
  using place = new Workplace();
  const path = place.path(name);
  mkdirSync(place.path(name, '..'), { recursive: true });
  const args = argumentsIn(place);
  rmSync(path, { force: true });
  execFileSync('mkfifo', [path]);
  const { code, stderr } = place.run(args, {}, '', 60_000);
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(code, 'null: it waited until it was killed').toBe(1);
});
