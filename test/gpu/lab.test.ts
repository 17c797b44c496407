// The kernel lab on a GPU: kernels are tested, timed, and used in training; one that breaks the device is named.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { newKernel } from '../../src/lab/new-kernel.ts';
import { describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';
import { testsOfLab } from '../support/lab.ts';

describeCuda('the kernel lab', () => {
  testsOfLab('cuda');

  it('test: a kernel that loses the device is named, and the next one is tested', () => {
    using place = new Workplace();
    const [, source] = newKernel(place.path('far'), ['gelu_forward', 'gelu_backward']) as [string, string];
    const text = readFileSync(source, 'utf8');
    writeFileSync(source, text.replace('out[i] =', 'out[i + (1ll << 40)] ='));
    const { code, stdout } = place.run(['kernel', 'test', 'far', '--device', 'cuda', '--dtype', 'bf16'], {
      XDG_CACHE_HOME: place.path('cache'),
    });
    expect(stdout).toMatch(
      /^far: the kernel gelu_forward failed: .*; `npx gpt2 kernel test far --sanitize` or `--device cpu` finds where$/m,
    );
    expect(stdout).toMatch(/^gelu_backward bf16 .* right: /m);
    expect(stdout).toMatch(/^wrong: gelu_forward bf16$/m);
    expect(code).toBe(1);
  });
});
