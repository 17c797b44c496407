// Tables in plain text.
import { expect, it } from 'vitest';
import { formatTable } from '../../src/report/text-table.ts';

it('aligns columns: the first to the left, the others to the right, no blanks at the end', () => {
  expect(
    formatTable([
      ['a', 'bcd'],
      ['long', 'e'],
      ['x', ''],
    ]),
  ).toBe('a     bcd\nlong    e\nx');
});

it('a table without rows is empty', () => {
  expect(formatTable([])).toBe('');
});
