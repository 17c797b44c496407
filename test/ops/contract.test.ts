// Sizes that a contract's dimensions stand for.
import { expect, it } from 'vitest';
import { parseDimension, sizeOf } from '../../src/ops/contract.ts';

it.each([
  ['64', {}, 64],
  ['N', { N: 5 }, 5],
  ['3C', { C: 5 }, 15],
  ['S+1', { S: 5 }, 6],
  ['N', { N: 5.5 }, 5.5],
  ['>=T', { T: 5 }, 5],
  ['C/NH', { C: 48, NH: 3 }, 16],
  ['N/16', { N: 1 }, 1],
  ['N/16', { N: 16 }, 1],
  ['N/16', { N: 17 }, 2],
  ['N/512', { N: 1030 }, 3],
  ['N/16', {}, undefined],
  ['C/NH', { C: 48 }, undefined],
] as const)('%s of %j is %s', (text, sizes, size) => {
  expect(sizeOf(parseDimension(text), sizes)).toBe(size);
});
