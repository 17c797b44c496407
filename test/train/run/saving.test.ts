// Saves while training continues: from a copy, one at a time, none left out; without memory for a copy more slowly; and after
// the device is lost.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { Device, NativeError, type RunEvent, readRun, train, writeCheckpoint } from '../../../src/index.ts';
import type { TrainOptions } from '../../../src/options/table.ts';
import { checkpointsFolder } from '../../../src/runs/paths.ts';
import { BackgroundWriter } from '../../../src/weights/checkpoint/background.ts';
import { listCheckpoints, newestValidCheckpoint, verifyCheckpoint } from '../../../src/weights/checkpoint/directory.ts';
import { loadOptimizer, loadWeights } from '../../../src/weights/checkpoint/read-checkpoint.ts';
import {
  arenasOf,
  contentOf,
  emptyModel,
  manifestFields,
  temporaryFolders,
  trainedModel,
} from '../../checkpoint/trained-model.ts';
import { describeBackends } from '../../support/backends.ts';
import { workplace } from '../../support/cli.ts';
import { noticesOf, tinyRun } from '../../support/tiny-run.ts';

const events = (run: string) => readRun(run).events;

describeBackends(
  'BackgroundWriter',
  (device) => {
    const temporaryFolder = temporaryFolders();

    it.each([false, true])('writes the state as it was when it was asked, in place: %s', async (inPlace) => {
      const folder = temporaryFolder();
      const trained = trainedModel(device());
      const wanted = contentOf(trained);
      const writer = new BackgroundWriter(trained.model, trained.optimizer);
      const head = { folder, step: 7, manifest: manifestFields };
      const written = writer.write(head, undefined, { inPlace });
      if (!inPlace) {
        for (const arena of arenasOf(trained)) arena.matrices.write(new Float32Array(arena.matrices.count));
      }
      const { path } = await written;
      await writer.close();
      const found = verifyCheckpoint(path!);
      const read = emptyModel(device());
      loadWeights(found, read.model);
      loadOptimizer(found, read.model, read.optimizer);
      expect(contentOf(read)).toEqual(wanted);
    });

    it('writes what writeCheckpoint writes', async () => {
      const [folder, other] = [temporaryFolder(), temporaryFolder()];
      const { model, optimizer } = trainedModel(device(), 3);
      const writer = new BackgroundWriter(model, optimizer);
      const { path } = await writer.write({ folder, step: 7, manifest: manifestFields }, undefined, { inPlace: false });
      await writer.close();
      const direct = writeCheckpoint({ folder: other, step: 7, model, optimizer, manifest: manifestFields });
      expect(verifyCheckpoint(path!).manifest.files).toEqual(verifyCheckpoint(direct).manifest.files);
    });

    it('takes no memory for a copy that the host or a container does not have', () => {
      const { model, optimizer } = trainedModel(device());
      const writer = new BackgroundWriter(model, optimizer);
      const allocate = vi.spyOn(Device.prototype, 'allocatePinned');
      vi.spyOn(process.memoryUsage, 'rss').mockReturnValue(2 ** 30);
      const allowed = vi.spyOn(process, 'constrainedMemory').mockReturnValue(2 ** 30 + writer.copyBytes - 1);
      expect(() => writer.prepare()).toThrow(expect.objectContaining({ status: 'GPT2_OUT_OF_MEMORY' }));
      expect(allocate).not.toHaveBeenCalled();
      allowed.mockReturnValue(2 ** 30 + writer.copyBytes);
      writer.prepare();
      expect(allocate).toHaveBeenCalledOnce();
      return writer.close();
    });

    it('removes what is not to be kept, and says what the disk refuses', async () => {
      const folder = temporaryFolder();
      const { model, optimizer } = trainedModel(device());
      const writer = new BackgroundWriter(model, optimizer);
      for (const step of [1, 2, 3]) {
        await writer.write({ folder, step, manifest: manifestFields }, { keep: 2 }, { inPlace: false });
      }
      expect(listCheckpoints(folder).map((path) => path.slice(-1))).toEqual(['2', '3']);
      const head = { folder: '/dev/null/run', step: 4, manifest: manifestFields };
      const refused = await writer.write(head, undefined, { inPlace: false });
      expect(refused.path).toBeUndefined();
      expect(refused.failure).toMatch(
        /^cannot write the checkpoint \/dev\/null\/run.*: ENOTDIR.*older checkpoints are untouched/,
      );
      await writer.close();
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

describe('a run that saves', () => {
  const place = workplace('each');
  const options = (more: TrainOptions): TrainOptions => ({
    ...{ ...tinyRun, data: place.data({ vocabulary: 50257 }), out: place.path('run'), ...more },
  });

  it('after each step waits for the disk, says so, and leaves none out', async () => {
    // GPT-2's vocabulary: a checkpoint of 20 MB, and steps of milliseconds.
    const given = options({ steps: 8, saveEvery: 1 });
    const notices = await noticesOf(given);
    const saved = events(given.out!).flatMap((event) => (event.event === 'checkpoint' ? [event] : []));
    expect(saved.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(saved.some(({ waitedMs }) => Number(waitedMs) > 1)).toBe(true);
    expect(notices.join('\n')).toMatch(/the save of step 3 waited \d+\.\d s until step 2 was written/);
    for (const { path } of saved) verifyCheckpoint(path);

    // Each is the state of its step: going on from the third ends in the same weights.
    const out = place.path('again');
    await train({ ...given, out, saveEvery: 0, stopAfter: 3 });
    const third = (run: string) =>
      verifyCheckpoint(join(checkpointsFolder(run), 'step-00000003')).manifest.files.map(({ sha256 }) => sha256);
    expect(third(out)).toEqual(third(given.out!));
    await train({ out, resume: true, stopAfter: 8 });
    expect(events(out).at(-1)).toMatchObject({ weights: (events(given.out!).at(-1) as { weights: string }).weights });
  });

  it.each([
    ['starts', {}],
    ['has saved before this step', { saveEvery: 1 }],
    ['resumes here', { stopAfter: 3 }],
  ])('leaves a long step for Ctrl-C, and goes on with the same bits: where it %s', async (_, more) => {
    const data = place.data({ vocabulary: 200 });
    const given = options({ data, steps: 4, totalBatch: 8 * 32, valEvery: 1, valTokens: 32 });
    await train(given);
    const out = place.path('left');
    const resumes = 'stopAfter' in more;
    if (resumes) await train({ ...given, ...more, out });
    // Each look at the clock takes a second, so that every step is a long one.
    let seconds = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => 1000 * seconds++);
    const stopping = new AbortController();
    const counted: number[] = [];
    let trained = resumes ? 3 : 0;
    const hooks = {
      signal: stopping.signal,
      onMicroBatch: (done: number, all: number) => {
        expect(all).toBe(8);
        if (trained === 3) counted.push(done);
        if (counted.length === 2) stopping.abort(130);
      },
      onEvent: ({ event }: RunEvent) => {
        if (event === 'train') trained++;
      },
    };
    const left = resumes ? { out, resume: true } : { ...given, ...more, out };
    await expect(train(left, hooks)).rejects.toThrow(/^stopped after 3 of 4 steps and saved; /);
    expect(counted.length).toBe(2);
    clock.mockRestore();
    await train({ out, resume: true });
    const facts = (run: string): string[] =>
      events(run).flatMap((event) => {
        if (event.event === 'done') return [event.weights];
        return event.event === 'train' || event.event === 'val' ? [`${event.event} ${event.step} ${event.loss}`] : [];
      });
    expect(facts(out)).toEqual(facts(given.out!));
  });

  it('without memory for a copy waits while it writes', async () => {
    const allocate = Device.prototype.allocatePinned;
    vi.spyOn(Device.prototype, 'allocatePinned').mockImplementation(function (this: Device, bytes) {
      if (bytes < 1 << 20) return allocate.call(this, bytes);
      throw new NativeError('gpt2_allocate_pinned', 'GPT2_OUT_OF_MEMORY', 'none left');
    });
    const given = options({ steps: 6, saveEvery: 2, keep: 1 });
    const notices = await noticesOf(given);
    expect(notices).toEqual([
      expect.stringMatching(
        /^too little host memory for a copy of 0\.0 GiB: training waits while each checkpoint is written$/,
      ),
    ]);
    const saved = events(given.out!).flatMap((event) => (event.event === 'checkpoint' ? [event.step] : []));
    expect(saved).toEqual([2, 4, 6]);
    expect(listCheckpoints(checkpointsFolder(given.out!)).length).toBe(1);
  });

  it('whose writing thread fails saves without it', async () => {
    const terminated = vi.spyOn(Worker.prototype, 'postMessage').mockImplementation(function (this: Worker) {
      this.emit('error', new Error('out of memory'));
    });
    const given = options({ steps: 4, saveEvery: 2 });
    const notices = await noticesOf(given);
    expect(terminated).toHaveBeenCalledTimes(2);
    expect(notices).toEqual([
      'step 2 was not saved; training continues: the thread that writes checkpoints failed: out of memory',
    ]);
    const { checkpoint } = newestValidCheckpoint(checkpointsFolder(given.out!));
    expect(checkpoint?.manifest.step).toBe(4);
  });

  it('does not save weights that are not finite, nor tries again', async () => {
    const given = options({ steps: 1, learningRate: 1e30, weightDecay: 1e30 });
    const { signal } = new AbortController();
    await expect(train(given, { signal })).rejects.toThrow(
      /^nothing is saved in .*: wte\.weight has -?Infinity at \d+; start from finite weights, or with a smaller --lr$/,
    );
    expect(existsSync(checkpointsFolder(given.out!))).toBe(false);
  });

  it('names the checkpoint to go on from when its device fails', async () => {
    const call = Device.prototype.call;
    let steps = 0;
    vi.spyOn(Device.prototype, 'call').mockImplementation(function (this: Device, name, args) {
      if (name === 'globalNorm' && ++steps > 5) {
        throw new NativeError('gpt2_event_query', 'GPT2_DEVICE_ERROR', 'cudaErrorLaunchFailure: unspecified failure');
      }
      return call.call(this, name, args as never);
    });
    const given = options({ steps: 9, saveEvery: 2 });
    await expect(train(given)).rejects.toThrow(
      /^the device failed in step 5: gpt2_event_query: cudaErrorLaunchFailure: .*; .*run.checkpoints.step-0000000[24] is complete: continue with --out .*run --resume$/,
    );
    const { checkpoint, damaged } = newestValidCheckpoint(checkpointsFolder(given.out!));
    expect([checkpoint?.manifest.step, damaged]).toEqual([4, []]);
    vi.restoreAllMocks();
    await train({ out: given.out!, resume: true });
    expect(existsSync(join(checkpointsFolder(given.out!), 'step-00000009'))).toBe(true);
  });
});
