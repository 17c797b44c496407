// `kernel profile`: ncu measures the card's kernels, and none of the library's; a kernel that fails is named.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'vitest';
import { testUnder } from '../support/lab.ts';

const command = ['kernel', 'profile', 'norm'];
testUnder('ncu', { name: 'measures each size once', op: 'layernorm_backward', command }, (profile, source) => {
  const { code, stdout, stderr } = profile();
  expect(stderr).toBe('');
  expect(stdout).toMatch(/^layernorm_backward fp32, on /);
  // Two kernels for each of two kinds of calls, in the order of the card.
  const launched = [
    ...stdout.matchAll(/^ {2}\d: N 8192, C 768, .*a step: (\w+), grid \((\d+), 1, 1\), block \(128, /gm),
  ];
  const both = [
    ['layernorm_backward_parameters', '6'],
    ['layernorm_backward_input', '64'],
  ];
  expect(launched.map(([, kernel, grid]) => [kernel, grid])).toEqual([...both, ...both]);
  expect(stdout).toMatch(/^ {2}\d: N 8192, C 768, without dresidual, 1 call a step: /m);
  for (const figure of ['duration, ms', 'DRAM, %', 'SM, %', 'issue slots, %', 'sectors a load', 'occupancy, %']) {
    expect(stdout).toMatch(new RegExp(`^ {2}${figure} +[\\d.]*[1-9]`, 'm'));
  }
  expect(stdout).toMatch(/^ {2}[a-z_]+ +[\d. ]+ {2}cycles an instruction that a warp waits /m);
  expect(code).toBe(0);
  writeFileSync(
    source,
    readFileSync(source, 'utf8').replace(/(void layernorm_backward_parameters\([^)]*\) {)/, '$1 __trap();'),
  );
  const failed = profile();
  expect(failed.stderr).toContain('layernorm_backward_parameters');
  expect(failed.code).toBe(1);
});
