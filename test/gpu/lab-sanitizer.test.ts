// `kernel test --sanitize`: a right kernel is clean, and of a write out of bounds the tool's report is shown.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { attempt, Gpt2Error } from '../../src/errors.ts';
import { newKernel } from '../../src/lab/new-kernel.ts';
import { findSanitizer } from '../../src/lab/sanitize.ts';
import { describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';

const isMissing = attempt(findSanitizer) instanceof Gpt2Error;

describeCuda('compute-sanitizer', () => {
  it.skipIf(isMissing)('finds what is wrong, and nothing else', () => {
    using place = new Workplace();
    const [, source] = newKernel(place.path('norm'), ['residual_forward']) as [string, string];
    const sanitize = () =>
      place.run(['kernel', 'test', 'norm', '--sanitize', '--device', 'cuda', '--dtype', 'fp32'], {
        XDG_CACHE_HOME: place.path('cache'),
      });
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
  });
});
