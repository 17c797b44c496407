// `kernel test --sanitize`: a right kernel is clean, and of a write out of bounds the tool's report is shown.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'vitest';
import { testUnder } from '../support/lab.ts';

const command = ['kernel', 'test', 'norm', '--sanitize'];
testUnder(
  'compute-sanitizer',
  { name: 'finds what is wrong, and nothing else', op: 'residual_forward', command },
  (sanitize, source) => {
    const said = sanitize(0);
    for (const check of ['memcheck', 'racecheck', 'initcheck']) {
      expect(said.stdout).toMatch(new RegExp(`^${check}:\n(=.*\n)*residual_forward fp32 {2}right at \\d+ sizes$`, 'm'));
    }
    expect(said.stdout).toMatch(/^nothing found: residual_forward fp32$/m);
    writeFileSync(source, readFileSync(source, 'utf8').replace('out[i] =', 'out[i + (1ll << 40)] ='));
    const { stdout } = sanitize(1);
    expect(stdout).toMatch(/^memcheck:\n(.*\n)*=+ Invalid __global__ write/m);
    expect(stdout).toMatch(/^found something: memcheck/m);
    expect(stdout).toMatch(/residual\.cu:\d+/);
  },
);
