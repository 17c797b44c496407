// Windows, documents, learned skips and value embeddings in a model: gradients against differences, packed documents against
// separate batches, decoding against forward, and what changes no bit.
import { expect, it } from 'vitest';
import { startPosition } from '../../src/data/batches/order.ts';
import { Device, KeyValueCache, logits, lossesOf, type ModelConfig, Trainer } from '../../src/index.ts';
import { recomputeNames } from '../../src/model/activation-tables.ts';
import { decode } from '../../src/model/decode.ts';
import { flopsPerToken } from '../../src/model/flops.ts';
import { firstKeys, growingWindows } from '../../src/model/mask.ts';
import { castWeights, createModel, type Model } from '../../src/model/model.ts';
import { parameterTable, realCount } from '../../src/model/parameters.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { noUpdate } from '../../src/optimizer/assign.ts';
import { replay } from '../../src/train/failure/replay.ts';
import { captured, writeCapture } from '../../src/weights/checkpoint/capture.ts';
import { describeBackends } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';
import {
  modernBatch,
  modernFixture,
  modernParts,
  modernTensors,
  tinyModernModel,
  windowedParts,
} from '../support/modern-models.ts';
import { checkGradient, expectClose, hashOf } from '../support/tensors.ts';
import { forwardOf } from '../support/tiny-model.ts';

const sizes = { layers: 6, channels: 64, heads: 2, context: 64, vocabularySize: 61 };
const end = 60;
const windowed: ModelConfig = { ...sizes, ...windowedParts, endOfText: end };
const T = 48;

/** A model whose weights are all random: none is 0, and no gain is 1. */
function randomModel(device: Device, config: ModelConfig, B: number, recompute?: (typeof recomputeNames)[number]) {
  const model = createModel(device, config, { B, T, purpose: 'training', recompute });
  const random = new Random(5);
  for (const parameter of parameterTable(config)) {
    const center = parameter.kind === 'vector' ? 0.5 : 0;
    const values = random.normals(realCount(parameter), center === 0 ? 0.15 : 0.3).map((value) => value + center);
    model.masters.write(parameter, values);
  }
  castWeights(model);
  return model;
}

/** Sequences of documents that begin with end of text, of 5 to 30 tokens. */
function packed(rows: number): Int32Array {
  const random = new Random(11);
  const tokens = random.integers(rows * T, end);
  for (let at = 0; at < tokens.length; at += 5 + random.integers(1, 26)[0]!) tokens[at] = end;
  return Int32Array.from(tokens);
}

const trainerOf = (model: Model, rows: number, sequence = T) =>
  new Trainer(model, { batch: rows, sequence, accumulation: 1, optimizer: noUpdate, gradientClip: 0 });

/** Targets: the next token, and none after the last. */
const targetsOf = (inputs: Int32Array) => inputs.map((_, at) => ((at + 1) % T === 0 ? -1 : inputs[at + 1]!));

describeBackends(
  'windowed model',
  (_, kind, dtype) => {
    it('has the gradients of its differences', async () => {
      using device = Device.open({ kind, dtype });
      const model = randomModel(device, windowed, 2);
      const trainer = trainerOf(model, 2);
      const inputs = packed(2);
      const batch = { inputs, targets: targetsOf(inputs) };
      await trainer.step(0, 0, () => batch);
      const loss = () =>
        floats(forwardOf(model, batch, T).model.losses).reduce((sum, value) => sum + value / (2 * T), 0);
      const names = ['wte', 'vte0', 'vte1', 'lnew', 'h.1.streamw', 'h.3.streamw', 'h.4.streamw', 'h.5.streamw'];
      for (const name of [...names, 'h.1.valuew', 'h.2.valuew', 'h.5.valuew', 'h.0.qkvw', 'h.2.fcw', 'h.5.attprojw']) {
        const gradient = floats(trainer.gradients.get(name)).slice();
        expect([...new Set(gradient)], name).not.toEqual([0]);
        const input = model.masters.get(name);
        // The loss, about 4, is rounded by 4e-7, and the derivatives of the factors are as small as 1e-3.
        const [step, limit] = /(stream|value)w$/.test(name) ? [3e-2, 1e-2] : [3e-3, 3e-3];
        checkGradient(name, { input, gradient, loss, step, limit });
      }
      // No layer of the first half has a skip.
      expect(floats(trainer.gradients.get('h.2.streamw'))[2]).toBe(0);
    });

    it('treats packed documents as sequences of their own', async () => {
      using device = Device.open({ kind, dtype });
      const model = randomModel(device, windowed, 1);
      const inputs = packed(1);
      const trainer = trainerOf(model, 1);
      const targets = targetsOf(inputs);
      await trainer.step(0, 0, () => ({ inputs, targets }));
      const losses = floats(model.activations.at(1, T).model.losses).slice();
      const gradients = [trainer.gradients.matrices, trainer.gradients.vectors].map((each) => floats(each).slice());
      const sums = gradients.map(({ length }) => new Float64Array(length));
      const starts = [...inputs.keys()].filter((at) => inputs[at] === end);
      for (const [index, start] of starts.entries()) {
        const stop = starts[index + 1] ?? T;
        const alone = trainerOf(model, 1, stop - start);
        const batch = { inputs: inputs.slice(start, stop), targets: targets.slice(start, stop) };
        const { loss } = await alone.step(0, 0, () => batch);
        const found = floats(model.activations.at(1, stop - start).model.losses);
        expectClose(`losses from ${start}`, losses.subarray(start, stop), found, 1e-5);
        expect(loss).toBeGreaterThan(0);
        for (const [kind, arena] of [alone.gradients.matrices, alone.gradients.vectors].entries()) {
          const share = (stop - start) / T;
          floats(arena).forEach((value, at) => {
            sums[kind]![at]! += value * share;
          });
        }
      }
      for (const [kind, sum] of sums.entries()) expectClose(`gradients ${kind}`, gradients[kind]!, sum, 2e-5);
    });

    /** The logits after a text, which is decoded at once, and token by token. */
    function expectDecoded(model: Model, text: Int32Array, wanted: ArrayLike<number>): void {
      const cache = new KeyValueCache(model, { texts: 1, window: text.length });
      cache.tokens.write(text);
      const last = text.length - 1;
      const logitsAt = (position: number, tokens: number) => {
        cache.positions.write(Int32Array.of(position));
        const row = decode(model, model.activations.at(1, tokens), cache, { first: tokens - 1, rows: 1 });
        return floats(row).subarray(0, wanted.length);
      };
      expectClose('at once', logitsAt(0, text.length), wanted, 1e-5);
      for (let position = 0; position < last; position++) logitsAt(position, 1);
      expectClose('token by token', logitsAt(last, 1), wanted, 1e-5);
    }

    it('decodes as forward computes, a text at once and token by token', async () => {
      using device = Device.open({ kind, dtype });
      const model = randomModel(device, { ...windowed, documentMask: false, endOfText: undefined }, 1);
      const inputs = packed(1);
      const all = await logits(model, { inputs }, { sequence: T });
      expectDecoded(model, inputs, all.subarray((T - 1) * sizes.vocabularySize));
    });

    it('a modern model without windows decodes the logits of PyTorch', () => {
      using device = Device.open({ kind, dtype });
      const { B, T } = modernFixture.tiny;
      const text = modernBatch.inputs.subarray((B - 1) * T);
      expectDecoded(tinyModernModel(device), text, modernTensors.get('logits').values);
    });
  },
  { dtypes: ['fp32'] },
);

describeBackends(
  'windows',
  (_, kind, dtype) => {
    /** Loss, norm and a step's gradients. */
    async function stepOf(config: ModelConfig, recompute?: (typeof recomputeNames)[number]) {
      using device = Device.open({ kind, dtype });
      const model = randomModel(device, config, 2, recompute);
      const trainer = trainerOf(model, 2);
      const inputs = packed(2);
      const result = await trainer.step(0, 0, () => ({ inputs, targets: inputs }));
      return { ...result, gradients: hashOf([trainer.gradients.matrices, trainer.gradients.vectors]) };
    }

    it('that hold the sequence change no bit', async () => {
      const modern: ModelConfig = { ...sizes, ...modernParts };
      const wide = await stepOf({ ...modern, window: T, shortWindow: T });
      expect(wide).toEqual(await stepOf(modern));
      expect(await stepOf({ ...modern, window: T, shortWindow: T - 1 })).not.toEqual(wide);
    });

    it('have the same bits whatever is recomputed', async () => {
      const [none, ...others] = await Promise.all(recomputeNames.map((recompute) => stepOf(windowed, recompute)));
      for (const other of others) expect(other).toEqual(none);
    });
  },
  { dtypes: ['fp32', 'bf16', 'fp8'] },
);

it('a captured step is replayed with the windows that it had', async () => {
  using place = new Workplace();
  using device = Device.open({ kind: 'cpu' });
  const model = randomModel(device, windowed, 2);
  const windows = { long: 9, short: 4 };
  const trainer = new Trainer(model, { ...trainerOf(model, 2).options, windowsAt: () => windows });
  const rows = [1, 2].map((seed) => new Random(seed).integers(T + 1, end + 1));
  const batch = {
    inputs: Int32Array.from(rows.flatMap((row) => [...row.subarray(0, T)])),
    targets: Int32Array.from(rows.flatMap((row) => [...row.subarray(1)])),
  };
  const next = () => batch;
  const { loss, norm } = await trainer.recompute(next, () => {}, 7);
  const differences = async (given: typeof windows | undefined) => {
    const facts = { program: 'test', step: 7, position: startPosition, windows: given };
    const sizes = { batch: 2, sequence: T, accumulation: 1, loss: captured(loss), norm: captured(norm) };
    const gradients = trainer.gradients;
    return (await replay(writeCapture(place.path('captures'), { model, gradients }, [batch], { ...facts, ...sizes })))
      .differences;
  };
  expect(await differences(windows)).toEqual([]);
  expect(await differences(undefined)).not.toEqual([]);
});

it.each<[message: string, config: ModelConfig, windows: object]>([
  ['windowsAt has no effect on a model without window', sizes, { long: 4, short: 4 }],
  ['there is no option "lng"; did you mean "long"?', windowed, { lng: 4 }],
  ['long takes a whole number of at least 1, not NaN', windowed, { long: Number.NaN }],
  ['short takes a whole number of at least 1, not 0', windowed, { long: 4, short: 0 }],
  ['options takes an object, not a Promise: await it', windowed, Promise.resolve({ long: 4 })],
])('windowsAt refuses: %s', async (message, config, windows) => {
  using device = Device.open({ kind: 'cpu' });
  const model = randomModel(device, config, 2);
  const trainer = new Trainer(model, { ...trainerOf(model, 2).options, windowsAt: () => windows });
  const inputs = packed(2);
  const next = () => ({ inputs, targets: inputs });
  await expect(trainer.step(0, 1e-3, next)).rejects.toThrow(message);
  await expect(trainer.recompute(next, () => {}, 0)).rejects.toThrow(message);
});

it('a query attends from the start of its document or window on', () => {
  const inputs = Int32Array.of(end, 1, 2, 3, 4, end, 6, 7, /* the next sequence */ 8, end, 1, 2, 3, 4, 5, 6);
  const config: ModelConfig = { ...sizes, window: 4, documentMask: true, endOfText: end };
  expect(firstKeys(config, inputs, 8)).toEqual({
    firstLong: Int32Array.of(0, 0, 0, 0, 1, 5, 5, 5, 0, 1, 1, 1, 1, 2, 3, 4),
    firstShort: Int32Array.of(0, 0, 1, 2, 3, 5, 5, 6, 0, 1, 1, 2, 3, 4, 5, 6),
  });
  expect(firstKeys({ ...config, window: undefined }, inputs, 8)).toEqual({
    firstLong: Int32Array.of(0, 0, 0, 0, 0, 5, 5, 5, 0, 1, 1, 1, 1, 1, 1, 1),
  });
  expect(firstKeys(sizes, inputs, 8)).toEqual({});
});

it('windows grow by 128 tokens to those of the model', () => {
  const at = (step: number) => growingWindows({ ...sizes, window: 1728 }, step, 1770);
  expect([0, 131, 132, 1769].map(at)).toEqual([
    { long: 128, short: 128 },
    { long: 128, short: 128 },
    { long: 256, short: 128 },
    { long: 1728, short: 864 },
  ]);
});

it('counts the operations of windows', () => {
  const at = (window?: number) => flopsPerToken({ ...sizes, layers: 1, window }, 1000);
  // A window of all tokens has the keys of causal attention, half a window almost 3/4 of them.
  expect(at(1000)).toBe(at());
  expect((at() - at(500)) / (6 * 1000 * sizes.channels)).toBeCloseTo(0.25, 10);
});

it('losses of a text are those of the last document', async () => {
  using device = Device.open({ kind: 'cpu' });
  const model = randomModel(device, windowed, 1);
  const text = [...packed(1).subarray(0, 20)];
  const start = text.lastIndexOf(end);
  expectClose('losses', (await lossesOf(model, text)).subarray(start), await lossesOf(model, text.slice(start)), 1e-5);
});
