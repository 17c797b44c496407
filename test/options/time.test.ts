// Reads options that take a number or a time, and a switch that takes a word.
import { expect, it } from 'vitest';
import { secondsOf } from '../../src/base/checks/given.ts';
import { readValue } from '../../src/options/read-options.ts';
import { optionRows } from '../../src/options/table.ts';

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
