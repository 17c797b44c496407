// `kernel profile`: ncu measures the card's kernels, and none of the library's; a kernel that fails is named.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { attempt, Gpt2Error } from '../../src/errors.ts';
import { newKernel } from '../../src/lab/new-kernel.ts';
import { findNcu } from '../../src/lab/profile-kernels.ts';
import { describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';

const isMissing = attempt(findNcu) instanceof Gpt2Error;

describeCuda('ncu', () => {
  it.skipIf(isMissing)('measures each size once', () => {
    using place = new Workplace();
    const [, source] = newKernel(place.path('norm'), ['layernorm_backward']) as [string, string];
    const profile = () =>
      place.run(['kernel', 'profile', 'norm', '--device', 'cuda', '--dtype', 'fp32'], {
        XDG_CACHE_HOME: place.path('cache'),
      });
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
});
