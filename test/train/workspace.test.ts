// Grows the workspace after steps: later steps do not use the freed one.
import { expect, it, vi } from 'vitest';
import { KeyValueCache } from '../../src/model/key-value-cache.ts';
import { Device } from '../../src/native/device.ts';
import type { Trainer } from '../../src/train/step/trainer.ts';
import { describeBackends } from '../support/backends.ts';
import { drawnModel, recordedBatch, tinyTrainer } from '../support/tiny-model.ts';

describeBackends('a workspace', (_, kind) => {
  const open = () => {
    const device = Device.open({ kind });
    return { device, trainer: tinyTrainer(drawnModel(device)) };
  };

  it('that grows between steps, as for a cache, changes none of them', async () => {
    const { device: first, trainer: alone } = open();
    using _first = first;
    const { device: second, trainer } = open();
    using _second = second;
    const step = (each: Trainer, index: number) => each.step(index, 1e-2, () => recordedBatch);
    expect(await step(trainer, 0)).toEqual(await step(alone, 0));
    // Its workspace takes the place of the one that the step was recorded with.
    const drop = vi.spyOn(second, 'dropGraphs');
    second.reserveWorkspace(1 << 24);
    expect(drop).toHaveBeenCalledOnce();
    new KeyValueCache(trainer.model, { texts: 2, window: 8 });
    for (let index = 1; index < 4; index++) expect(await step(trainer, index)).toEqual(await step(alone, index));
  });

  it('for which there is no memory is one that ops miss, not one that was freed', async () => {
    const { device, trainer } = open();
    using _device = device;
    const step = () => trainer.step(0, 0, () => recordedBatch);
    const { loss } = await step();
    const before = device.allocated.get('workspace')!;
    expect(() => device.reserveWorkspace(2 ** 50)).toThrow('cannot allocate');
    await expect(step()).rejects.toThrow(/workspace/);
    device.reserveWorkspace(before);
    expect((await step()).loss).toBe(loss);
  });
});
