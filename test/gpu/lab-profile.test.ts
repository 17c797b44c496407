// `kernel profile`: ncu measures the card's kernels, and none of the library's; its output is passed on; a kernel that fails is named.
import { expect } from 'vitest';
import { edit, testUnder } from '../support/lab.ts';

const command = ['kernel', 'profile', 'norm'];
testUnder('ncu', { name: 'measures each size once', op: 'norm_backward.layernorm', command }, (profile, source) => {
  const { stdout } = profile(0);
  // After what ncu says while it measures.
  expect(stdout).toMatch(/^norm_backward\.layernorm fp32, on /m);
  for (const kind of ['without dresidual, 1 call', '24 calls']) {
    expect(stdout).toContain(`  N 8192, C 768, ${kind} a step, kernels in a call: 2\n`);
  }
  // In the order of the card, and none of the library's.
  const launched = [...stdout.matchAll(/^ {2}(\w+)\b.* \((\d+), 1, 1\)x\(128, 1, 1\), Context /gm)];
  const both = [
    ['layernorm_backward_parameters', '6'],
    ['layernorm_backward_input', '64'],
  ];
  expect(launched.map(([, kernel, grid]) => [kernel, grid])).toEqual([...both, ...both]);
  for (const figure of ['DRAM Throughput', 'Registers Per Thread', 'Achieved Occupancy']) {
    expect(stdout.match(new RegExp(`^ +${figure} +\\S+ +[\\d.]*[1-9]`, 'gm'))?.length).toBeGreaterThanOrEqual(4);
  }
  edit(source, (text) => text.replace(/(void layernorm_backward_parameters\([^)]*\) {)/, '$1 __trap();'));
  expect(profile(1).stderr).toContain('layernorm_backward_parameters');
});
