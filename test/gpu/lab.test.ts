// The kernel lab on a GPU: kernels are tested, timed, and used in training; one that breaks the device is named.
import { expect, it } from 'vitest';
import { benchOp } from '../../src/lab/bench-op.ts';
import { casesNamed } from '../../src/lab/ops.ts';
import { stepCalls } from '../../src/lab/step-calls.ts';
import { Device } from '../../src/native/device.ts';
import { replaceOp } from '../../src/ops/replacements.ts';
import { describeCuda } from '../support/backends.ts';
import { testsOfLab } from '../support/lab.ts';

describeCuda('the kernel lab', () => testsOfLab('cuda'));

describeCuda('a cold time', () => {
  it('has no time of the host', async () => {
    using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
    const calls = await stepCalls(device);
    const cases = casesNamed('norm_forward.layernorm');
    replaceOp(device, cases.variant, (_, native) => {
      for (const begin = performance.now(); performance.now() - begin < 0.3; );
      device.call(cases.variant.op.name as 'adamw', native as never);
    });
    const { results } = await benchOp(device, cases, calls);
    for (const { ours, own } of results) expect(own.cold).toBeLessThan(ours.cold + 0.05);
  });
});
