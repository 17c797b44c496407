// Options by name, in files of --config as config.json and logs or --help have them, and values that are a number, time or word.
import { writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { secondsOf } from '../../src/base/checks/given.ts';
import { readOptionsFile, readValue } from '../../src/options/read-options.ts';
import { flagOf } from '../../src/options/row.ts';
import { resolveSources } from '../../src/options/sources.ts';
import { type OptionName, optionNamed, optionNames, optionRows } from '../../src/options/table.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();

it('every option is named by its field, its flag, and either in snake case', () => {
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const named = (as: (name: OptionName) => string) => optionNames.map((name) => optionNamed(as(name)));
  expect(named((name) => name)).toEqual(optionNames);
  expect(named(snake)).toEqual(optionNames);
  expect(named((name) => flagOf(optionRows[name]))).toEqual(optionNames);
  expect(named((name) => flagOf(optionRows[name]).replace('--', '').replaceAll('-', '_'))).toEqual(optionNames);
  expect(optionNamed('max-steps')).toBeUndefined();
});

it('reads them from a file, and from the config.json of a folder', () => {
  place.file('config.json', JSON.stringify({ lr: 1e-3, 'total-batch': 512, valEvery: 5, seq: 64 }));
  const read = { learningRate: 1e-3, totalBatch: 512, valEvery: 5, sequence: 64 };
  expect(readOptionsFile(place.path('config.json'))).toEqual(read);
  expect(readOptionsFile(place.folder)).toEqual(read);
});

it('flags override the file, and another schedule has its own end', () => {
  const config = place.path('falls.json');
  writeFileSync(config, JSON.stringify({ schedule: 'cosine', finalLearningRateFraction: 0.1, steps: 5 }));
  const { options } = resolveSources({ config, steps: undefined });
  expect(options).toMatchObject({ finalLearningRateFraction: 0.1, steps: 5 });
  expect(resolveSources({ config, schedule: 'linear', steps: 9 }).options).toEqual({ schedule: 'linear', steps: 9 });
});

it('a time has a unit and is over 0', () => {
  expect(['90s', '10m', '1.5h'].map(secondsOf)).toEqual([90, 600, 5400]);
  expect(['0s', '-1m', 'm', '10', '10d', ' 1m', '1e999s', 10, true].map(secondsOf)).toEqual(Array(9).fill(undefined));
});

it('--save-every takes steps or a time', () => {
  expect([500, '500', '0', '10m'].map((value) => readValue(optionRows.saveEvery, value))).toEqual([500, 500, 0, '10m']);
  const wrong = '--save-every takes a whole number of at least 0 or a time such as 90s, 10m or 1.5h, not "10 minutes"';
  expect(() => readValue(optionRows.saveEvery, '10 minutes')).toThrow(wrong);
});

it('--resume takes auto', () => {
  expect([true, false, 'auto'].map((value) => readValue(optionRows.resume, value))).toEqual([true, false, 'auto']);
});
