// The status line of a run in terminals of any width.
import { expect, it } from 'vitest';
import { shareLine, statusLine } from '../../src/commands/progress.ts';

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

it('work without steps shows its share and the time left', () => {
  expect([shareLine(0, 40, 10), shareLine(10, 40, 21_000), shareLine(40, 40, 9)]).toEqual([
    '0%',
    '25%   left 1m03s',
    '100%   left 0s',
  ]);
});
