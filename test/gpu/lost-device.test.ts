// A GPU that is lost under a run, as after a fault of its own: here by an op on memory that is not there, which the driver
// answers by refusing everything from then on. A process of its own, for that reason.
import { expect, it, vi } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { train } from '../../src/train/train.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';

describeCuda('a GPU lost under a run', () => {
  it('ends it with the checkpoint to go on from', async () => {
    using place = new Workplace();
    const call = Device.prototype.call;
    let launches = 0;
    vi.spyOn(Device.prototype, 'call').mockImplementation(function (this: Device, name, args) {
      // Two graphs a step, micro-batch and update: in step 5.
      if (name === 'graphLaunch' && ++launches === 11) {
        call.call(this, 'geluForward', { out: 4096n, in: 8192n, count: 1 << 20 } as never);
      }
      return call.call(this, name, args as never);
    });
    const given = {
      ...{ device: 'cuda', layers: 2, channels: 128, heads: 2, context: 64, batch: 2, sequence: 64 },
      ...{ valEvery: 0, sampleEvery: 0, steps: 9, saveEvery: 2 },
      ...{ data: place.data({ vocabulary: 128 }), out: place.path('run') },
    };
    await expect(train(given)).rejects.toThrow(
      /^the device failed in step [56]: gpt2_\w+: cudaError\w+: .*step-0000000[24] is complete: continue with --out .*run --resume$/,
    );
    const { checkpoint } = newestValidCheckpoint(checkpointsFolder(given.out));
    expect([2, 4]).toContain(checkpoint?.manifest.step);
  });
});
