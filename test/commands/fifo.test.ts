// A FIFO under the name of a file that a command reads: nobody writes it, so opening it must not wait.
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { expect, it } from 'vitest';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { tinyModel, workplace } from '../support/cli.ts';

const place = workplace('each');
const train = `train --data data --out run --steps 1 --seq 32 --val-every 0 --sample-every 0 ${tinyModel.join(' ')}`;

it.each([
  ['a shard', 'data/x_train.bin', train],
  ['dataset.json', 'data/dataset.json', train],
  ['a log that is compared', 'run/log.jsonl', 'compare run'],
  ['a log that is written', 'run/log.jsonl', `${train} --overwrite`],
  ['options', 'options.json', 'train --config options.json'],
  ['the options of a run', 'resumed/config.json', 'train --out resumed --resume --device cpu'],
  ['a reference', 'curve.json', 'compare other --reference curve.json'],
  ['weights of transformers', 'model/model.safetensors', 'eval --model model --device cpu'],
])('%s', (_, name, line) => {
  place.data();
  place.file('resumed/notes', '');
  place.file('model/config.json', JSON.stringify({ model_type: 'gpt2' }));
  writeLog(place.path('other'), [runEvent(), trainEvent(0, 1)]);
  const path = place.path(name);
  mkdirSync(place.path(name, '..'), { recursive: true });
  rmSync(path, { force: true });
  execFileSync('mkfifo', [path]);
  const { code, stderr } = place.run(line, {}, '', 60_000);
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(code, 'null: it waited until it was killed').toBe(1);
});
