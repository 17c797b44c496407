// scripts/timeline.ts: which records are the last whole step, and their table.
import { expect, it } from 'vitest';
import { timesByKernel } from '../../scripts/timeline.ts';

const norm = 'gpt2::global_norm::norm_kernel(float*, double const*, int, float)';
const product = 'void gpt2::sm90::plain_kernel<true, (gpt2::Epilogue)0, 208>(gpt2::sm90::ProductMaps)';
const epoch = 1_795_000_000_000_000_000n;
const line = (start: number, end: number, name: string): string =>
  `${epoch + BigInt(1000 * start)}\t${epoch + BigInt(1000 * end)}\t7\t${name}\n`;
const step = (at: number): string =>
  [line(at + 5, at + 45, product), line(at + 40, at + 60, product), line(at + 70, at + 71, 'memcpy')].join('') +
  line(at + 95, at + 100, norm);

it('the last whole step goes from the end of a norm to the end of the next', () => {
  const table = timesByKernel(`# 3 records are lost\n${step(0)}${step(100)}${line(205, 390, product)}`);
  expect(table.split('\n').map((row) => row.trim().split(/ {2,}/))).toEqual([
    ['a step of 0.100 ms', 'calls', 'ms'],
    ['gpt2::sm90::plain_kernel<true, (gpt2::Epilogue)0, 208>', '2', '0.060'],
    ['gpt2::global_norm::norm_kernel', '1', '0.005'],
    ['memcpy', '1', '0.001'],
  ]);
  expect(() => timesByKernel(step(0))).toThrow('no whole step was recorded');
});
