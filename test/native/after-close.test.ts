// Nothing that belonged to a closed device touches memory: each use is an error, and another device is none the worse.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { moduleLoader, programOf } from '../support/built.ts';
import { drawnModel, recordedBatch, tinyTrainer } from '../support/tiny-model.ts';

const program = await programOf(join(import.meta.dirname, '../support/after-close.ts'));

it.each([
  'a step',
  'a step after a step',
  'steps under way',
  'a step that is being enqueued',
  'everything but a step',
  'a step beside another device',
])('refuses %s, and a device opened afterwards trains', async (scenario) => {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [...moduleLoader, program, scenario], {
    encoding: 'utf8',
  });
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' });
  using device = Device.open({ kind: 'cpu', threads: 1 });
  const trainer = tinyTrainer(drawnModel(device));
  const wanted = [];
  for (let index = 0; index < 3; index++) wanted.push((await trainer.step(index, 1e-3, () => recordedBatch)).loss);
  expect(JSON.parse(stdout)).toEqual(wanted);
});
