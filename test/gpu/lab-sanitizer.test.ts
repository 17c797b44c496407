// `kernel test --sanitize`: a right kernel is clean, and of a write out of bounds the tool's report is shown.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'vitest';
import { testUnder } from '../support/lab.ts';

const command = ['kernel', 'test', 'norm', '--sanitize'];
testUnder(
  'compute-sanitizer',
  { name: 'finds what is wrong, and nothing else', op: 'residual_forward', command },
  (sanitize, source) => {
    expect(sanitize()).toMatchObject({
      code: 0,
      stdout: 'memcheck: finds nothing\nracecheck: finds nothing\ninitcheck: finds nothing\n',
    });
    const text = readFileSync(source, 'utf8');
    writeFileSync(source, text.replace('out[i] =', 'out[i + (1ll << 40)] ='));
    const { code, stdout } = sanitize();
    expect(stdout).toMatch(/^memcheck: finds errors:\n(.*\n)* {2}.*Invalid __global__ write/m);
    expect(stdout).toMatch(/residual\.cu:\d+/);
    expect(code).toBe(1);
  },
);
