// The status line of a run in terminals of any width.
import { expect, it } from 'vitest';
import { statusLine } from '../../src/commands/progress.ts';

it.each([
  [79, '[===============               ] 50/100   left 1m05s'],
  [39, '[=========        ] 50/100   left 1m05s'],
  [24, '50/100   left 1m05s'],
  [9, '50/100   left 1m05s'],
])('%d columns', (columns, line) => {
  expect(statusLine(50, 100, '   left 1m05s', columns)).toBe(line);
});

it('is full at the end', () => {
  expect(statusLine(7, 7, '', 20)).toBe('[==============] 7/7');
});
