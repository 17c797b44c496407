// Stops at a loss or gradient that is not finite: weights unchanged, the first tensor named, a capture that replays the same.
// With --skip-spikes training continues without such steps.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeShard } from '../../../src/data/shards/shard.ts';
import { AdamW, Device, type ModelConfig, readRun, type TrainOptions, train } from '../../../src/index.ts';
import { type Recompute, recomputeNames } from '../../../src/model/activation-tables.ts';
import { castWeights } from '../../../src/model/model.ts';
import { Random } from '../../../src/ops/cases/case-numbers.ts';
import { noUpdate } from '../../../src/optimizer/assign.ts';
import { OptimizerState } from '../../../src/optimizer/state.ts';
import { checkpointsFolder } from '../../../src/runs/paths.ts';
import { locate } from '../../../src/train/failure/locate.ts';
import { replay } from '../../../src/train/failure/replay.ts';
import { neededBytes } from '../../../src/train/plan/plan-memory.ts';
import { newestValidCheckpoint } from '../../../src/weights/checkpoint/directory.ts';
import { openSafetensors } from '../../../src/weights/files/safetensors.ts';
import { manifestFields, writeUnchecked } from '../../checkpoint/trained-model.ts';
import { describeBackends } from '../../support/backends.ts';
import { workplace } from '../../support/cli.ts';
import { haveMemory } from '../../support/memory.ts';
import { drawnModel, tinyTrainer } from '../../support/tiny-model.ts';

const config: ModelConfig = { layers: 3, channels: 128, heads: 2, context: 64, vocabularySize: 128 };
const huge = 3e38;
const place = workplace('each');

/** Changes elements of a parameter: each gives the index of a row and a column, and what lies there then. */
type Change = (name: string, edit: (at: (row: number, column: number) => number, values: Float32Array) => void) => void;

/** A checkpoint to start from, of GPT-2 as it is drawn but for some changes. */
function changedModel(changes: (change: Change) => void): string {
  using device = Device.open({ kind: 'cpu' });
  const model = drawnModel(device, config, { B: 1, T: 16, purpose: 'inference' });
  changes((name, edit) => {
    const tensor = model.masters.get(name);
    const values = tensor.read() as Float32Array;
    const width = tensor.shape.length === 1 ? 1 : tensor.shape[1]!;
    edit((row, column) => row * width + column, values);
    tensor.write(values);
  });
  const optimizer = new OptimizerState(model, new AdamW({ weightDecay: 0 })).copies;
  return writeUnchecked({ folder: place.path('changed'), step: 1, model, optimizer, manifest: manifestFields });
}

/** A product with an input that is always 0 and a weight that is huge: nothing forward, too much backward. */
const tooMuchBackwardIn =
  (layer: number) =>
  (change: Change): void => {
    change(`h.${layer}.ln2w`, (at, values) => {
      values[at(5, 0)] = 0;
    });
    change(`h.${layer}.fcw`, (at, values) => {
      for (let column = 0; column < config.channels; column++) values[at(7, column)] = column === 5 ? huge : 0;
    });
    change(`h.${layer}.fcprojw`, (at, values) => {
      for (let row = 0; row < config.channels; row++) values[at(row, 7)] = row % 2 === 0 ? huge : huge / 3;
    });
  };

const events = (run: string) => readRun(run).events;

const weightsOf = (checkpoint: string): Float32Array[] => {
  using file = openSafetensors(join(checkpoint, 'model.safetensors'));
  return file.names.map((name) => file.read(name));
};

describeBackends(
  'a step that is not finite',
  (_, kind, dtype) => {
    const options = (more: TrainOptions): TrainOptions => ({
      ...{ device: kind, dtype, batch: 2, sequence: 64, valEvery: 0, sampleEvery: 0, seed: 1 },
      ...{ data: place.data({ below: 128, vocabulary: 128 }), out: place.path('run') },
      ...more,
    });

    it.each([0, 1, 2])('whose gradient overflows in layer %i is stopped at, captured and replayed', async (layer) => {
      const model = changedModel(tooMuchBackwardIn(layer));
      const given = options({ model, steps: 5, totalBatch: 256 });
      const message =
        /^step 0 is not finite \(loss 4\.\d+, norm (Infinity|NaN)\); (?<began>micro-batch 0, layer (?<layer>\d): gpt2_matmul_backward_input wrote (-?Infinity|NaN) to din \(dbranch\)); captured: `(npm run gpt2 --|npx gpt2) replay .*step-00000000` computes it again; saved the state before the step; continue with --out .* --resume/;
      const error = await train(given).catch((thrown: Error) => thrown);
      expect((error as Error).message).toMatch(message);
      expect(message.exec((error as Error).message)!.groups!.layer).toBe(String(layer));

      const { checkpoint } = newestValidCheckpoint(checkpointsFolder(given.out!));
      expect(checkpoint!.manifest).toMatchObject({ step: 0, position: { epoch: 0, shard: 0, sample: 0 } });
      expect(weightsOf(checkpoint!.path)).toEqual(weightsOf(model));
      expect(events(given.out!).map(({ event }) => event)).toEqual(['run', 'checkpoint', 'nonFinite']);

      const again = await replay(join(given.out!, 'captures', 'step-00000000'));
      expect(again.differences).toEqual([]);
      expect(again.finding).toMatch(new RegExp(`^micro-batch 0, layer ${layer}: gpt2_matmul_backward_input`));

      // Going on as it was comes to the same; the log has the step once.
      const resumed = await train({ out: given.out!, resume: true }).catch((thrown: Error) => thrown);
      expect((resumed as Error).message).toMatch(message);
    });

    it('of a run that computes again is replayed in as little memory, and in more', async () => {
      const model = changedModel((change) => change('h.1.fcw', (_, values) => void values.fill(huge)));
      const given = options({ model, steps: 5, totalBatch: 256, recompute: 'block' });
      await expect(train(given)).rejects.toThrow(/wrote (NaN|-?Infinity) to \w+ \(h\.1\.\w+\); captured:/);
      const capture = join(given.out!, 'captures', 'step-00000000');
      const needed = (recompute: Recompute) => {
        using device = Device.open({ kind, dtype });
        return neededBytes(device, config, { B: 2, T: 64, optimizer: noUpdate, rows: 4, recompute });
      };
      for (const recompute of recomputeNames) {
        haveMemory(needed(recompute) / 2 ** 30);
        expect((await replay(capture)).differences, recompute).toEqual([]);
      }
      haveMemory(needed('block') / 2 ** 30 - 2 ** -20);
      await expect(replay(capture)).rejects.toThrow(
        /step-00000000 needs [\d.]+ GiB of memory at least, [\d.]+ GiB of [\d.]+ GiB are free; end what else runs (here|on the GPU), or name another --device$/,
      );
    });

    it('after others changes nothing of what they did', async () => {
      // An update of this size leaves weights that are finite, and products of them that are not.
      const given = options({
        ...{ layers: 2, channels: 128, heads: 2, context: 64 },
        ...{ steps: 6, totalBatch: 256, learningRate: 1e30, gradientClip: 0 },
      });
      await expect(train(given)).rejects.toThrow(
        /^step 1 is not finite .*; micro-batch 0, .* wrote (NaN|-?Infinity) to /,
      );
      await train({ ...given, out: place.path('shorter'), stopAfter: 1 });
      const [stopped, shorter] = [given.out!, place.path('shorter')].map(
        (run) => newestValidCheckpoint(checkpointsFolder(run)).checkpoint!,
      );
      expect(stopped!.manifest.position).toEqual(shorter!.manifest.position);
      expect(stopped!.manifest.files).toEqual(shorter!.manifest.files);
      expect((await replay(join(given.out!, 'captures', 'step-00000001'))).differences).toEqual([]);
    });

    it('is found in the micro-batch where it began', async () => {
      using device = Device.open({ kind, dtype, accumulates: true });
      const [B, T] = [2, 64];
      const model = drawnModel(device, config, { B, T, purpose: 'training' });
      const trainer = tinyTrainer(model, { batch: B, sequence: T, accumulation: 3 });
      const random = new Random(2);
      let micro = 0;
      const nextBatch = () => {
        if (micro++ === 1) {
          model.masters.get('h.1.attprojb').write(Float32Array.of(Number.POSITIVE_INFINITY));
          castWeights(model);
        }
        const tokens = () => random.integers(B * T, config.vocabularySize);
        return { inputs: tokens(), targets: tokens() };
      };
      const { finding, result } = await locate(trainer, nextBatch);
      expect(result.loss).toBeNaN();
      const tensor = 'out (h.1.residual2)';
      expect(finding).toEqual({ microBatch: 1, layer: 1, op: 'gpt2_matmul_forward', tensor, value: 'Infinity' });
    });

    it('from weights that are not finite is not saved', async () => {
      const model = changedModel((change) =>
        change('h.1.qkvb', (at, values) => {
          values[at(9, 0)] = Number.NaN;
        }),
      );
      const given = options({ model, steps: 5 });
      await expect(train(given)).rejects.toThrow(
        /layer 1: before the step the weights h\.1\.qkvb hold NaN; captured: .*; not saved, because the weights themselves are not finite: start .* a smaller --lr and --overwrite$/,
      );
      expect(existsSync(checkpointsFolder(given.out!))).toBe(false);
    });

    it('can be left out: --skip-spikes, counted, and the same after a resume', async () => {
      const random = new Random(4);
      // One token all along, but for a batch of others after 200 steps.
      const tokens = Int32Array.from({ length: 128 * 230 + 1 }, () => (random.uniform() < 0.9 ? 5 : 6));
      for (let at = 200 * 128; at < 201 * 128; at++) tokens[at] = 20 + (at % 90);
      const given = options({
        ...{ layers: 1, channels: 64, heads: 1, context: 64, order: 'file', steps: 230, learningRate: 1e-3 },
        skipSpikes: 5,
      });
      writeShard(place.path('data', 'random_train.bin'), Uint16Array.from(tokens));
      await train(given);
      const skipped = (run: string) =>
        events(run).flatMap((event) => (event.event === 'train' && event.skipped ? [event.step] : []));
      expect(skipped(given.out!)).toEqual([200]);
      const done = events(given.out!).at(-1)!;
      expect(done).toMatchObject({ event: 'done', skipped: 1 });

      const out = place.path('resumed');
      for (const stopAfter of [100, 190, 201]) await train({ ...given, out, stopAfter, resume: existsSync(out) });
      await train({ out, resume: true, stopAfter: 230 });
      expect(skipped(out)).toEqual([200]);
      expect(events(out).at(-1)).toMatchObject({ weights: (done as { weights: string }).weights, skipped: 1 });
    });

    it('again and again ends the run even so', async () => {
      const model = changedModel(tooMuchBackwardIn(1));
      const given = options({ model, steps: 60, skipSpikes: 4 });
      await expect(train(given)).rejects.toThrow(
        /^stopped after 1[67] of 60 steps and saved: the last 1[67] updates were all skipped as spikes; continue with/,
      );
      const { checkpoint } = newestValidCheckpoint(checkpointsFolder(given.out!));
      expect(weightsOf(checkpoint!.path)).toEqual(weightsOf(model));
    });
  },
  { dtypes: ['fp32', 'bf16'], cpuDtypes: ['fp32'] },
);
