import { expect, it } from 'vitest';
import { formatRate } from '../../src/report/format-numbers.ts';

it.each([
  [0.05123, '0.0512'],
  [51.23, '51.2'],
  [999.4, '999'],
  [999.6, '1000'],
  [1979, '1979'],
])('a rate of %d is "%s", never with an exponent', (rate, text) => {
  expect(formatRate(rate)).toBe(text);
});
