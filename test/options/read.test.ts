// Names of options in files of --config: as config.json and logs have them, or as --help has them.
import { writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { readOptionsFile } from '../../src/options/read-options.ts';
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
