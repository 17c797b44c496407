// The whole model against PyTorch: every activation, every named gradient, updates on every code path of a CPU; thread counts; head chunks.
import { describe, expect, it } from 'vitest';
import { AdamW, createModel, Device, forward, Trainer } from '../../src/index.ts';
import { ParameterArena } from '../../src/model/arena.ts';
import { backward } from '../../src/model/backward.ts';
import { modelLabel, presetConfig } from '../../src/model/config.ts';
import { headForwardBackward } from '../../src/model/head.ts';
import { parameterCount, parameterTable, realCount } from '../../src/model/parameters.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { noUpdate } from '../../src/optimizer/assign.ts';
import { codePaths, describeBackends, openPath } from '../support/backends.ts';
import {
  modernBatch,
  modernFixture,
  modernOptimizer,
  modernParts,
  modernTensors,
  smallModernConfig,
  smallModernModel,
  tinyModernConfig,
  tinyModernModel,
} from '../support/modern-models.ts';
import { expectClose, hashOf } from '../support/tensors.ts';
import {
  drawnModel,
  forwardOf,
  recordedBatch,
  recordedModel,
  tinyConfig,
  tinyFixture,
  tinyTensors,
  tinyTrainer,
} from '../support/tiny-model.ts';

const { learningRate, weightDecay, gradClip } = tinyFixture.training;
const modern = modernFixture.tiny;
const recorded = [
  {
    ...{ name: 'GPT-2', make: recordedModel, config: tinyConfig, size: tinyFixture.batch, tensors: tinyTensors },
    ...{ batch: recordedBatch, limit: undefined, factors: Array<number>(10).fill(learningRate) },
    ...tinyFixture.float64,
    training: { optimizer: new AdamW({ weightDecay }), gradientClip: gradClip },
    // PyTorch's own fp32 ends 1.2e-7 from its float64; sums in another order may be further away.
    finals: ['wpe', 'h.0.ln1w', 'h.0.attprojw', 'h.0.fcb', 'h.1.fcprojb', 'lnfw'].map((name) => [name, 1e-5] as const),
  },
  {
    ...{ name: 'modern', make: tinyModernModel, config: tinyModernConfig, size: modern, tensors: modernTensors },
    // PyTorch's own fp32 is up to 2e-6 from its float64 in gradients, and in all weights but wte after ten updates.
    ...{ batch: modernBatch, limit: 1e-5, losses: modern.losses, norms: undefined, factors: modern.factors },
    training: { optimizer: modernOptimizer(modern.B * modern.T), gradientClip: 0 },
    // AdamW's update of an element with a small gradient has its gradient's relative error, and wte's rate is 0.3: PyTorch's own
    // fp32 is 3e-5 away.
    finals: Object.keys(modern.draws).map((name) => [name, name === 'wte' ? 3e-4 : 1e-5] as const),
  },
];

const { small } = modernFixture;
/** Micro-batches of the recipe "modern", from the stream of i^2 modulo the vocabulary. */
function squaresAt(step: number) {
  const square = (start: number) => (_: unknown, index: number) =>
    (step * small.B * small.T + start + index) ** 2 % smallModernConfig.vocabularySize;
  const from = (start: number) => Int32Array.from({ length: small.B * small.T }, square(start));
  return { inputs: from(0), targets: from(1) };
}
const updated = [
  ...recorded.map((each) => ({ ...each, batchAt: (_: number) => each.batch })),
  {
    ...{ name: 'modern from its initial weights', make: smallModernModel, size: small, batchAt: squaresAt },
    // PyTorch's own fp32 is 1e-6 from its float64.
    ...{ tensors: modernTensors, losses: small.losses, norms: undefined, factors: small.factors, finals: [] },
    training: { optimizer: modernOptimizer(small.B * small.T), gradientClip: 0 },
  },
];

describeBackends('model as recorded', (_, kind) => {
  describe.each(recorded)('$name', ({ make, config, size, tensors, batch, limit }) => {
    const { B, T } = size;

    it('backward equals PyTorch, gradient by gradient, overwritten and accumulated', () => {
      using device = Device.open({ kind });
      const model = make(device);
      const activations = model.activations.at(B, T);
      const gradients = new ParameterArena(device, config, 'gradients', device.gradientType, 'fp32');
      for (const memory of [gradients.matrices, gradients.vectors]) {
        memory.write(new Float32Array(memory.count).fill(Number.NaN));
      }
      // wpe's rows past T have no gradient and are never written: they stay as they were allocated, zero.
      if (config === tinyConfig) gradients.get('wpe').write(new Float32Array(gradients.get('wpe').count));
      activations.model.tokens.write(batch.inputs);
      activations.model.targets.write(batch.targets);
      for (const accumulate of [false, true]) {
        forward(model, activations);
        headForwardBackward(model, activations, gradients, { dloss: 1 / (B * T), accumulate });
        expectClose('losses', floats(activations.model.losses), tensors.get('losses').values, 1e-6);
        backward(model, activations, gradients, { accumulate });
        for (const { name } of parameterTable(config)) {
          const wanted = tensors.get(`gradient/${name}`).values.map((value) => value * (accumulate ? 2 : 1));
          expectClose(`${name}${accumulate ? ' +=' : ''}`, floats(gradients.get(name)), wanted, limit);
        }
      }
    });

    it('micro-batches add up to the gradients of the batch, in every step', async () => {
      using device = Device.open({ kind, accumulates: true });
      const sizes = { batch: 1, sequence: T, accumulation: B };
      const trainer = new Trainer(make(device), { ...sizes, optimizer: noUpdate, gradientClip: 0 });
      for (let index = 0; index < 2; index++) {
        let row = 0;
        await trainer.step(index, 0, () => {
          const at = row++ * T;
          return { inputs: batch.inputs.subarray(at, at + T), targets: batch.targets.subarray(at, at + T) };
        });
        for (const { name } of parameterTable(config)) {
          expectClose(name, floats(trainer.gradients.get(name)), tensors.get(`gradient/${name}`).values, limit);
        }
      }
    });
  });

  it.each(updated)('updates equal PyTorch: $name', async ({ make, size: { B, T }, batchAt, tensors, ...recorded }) => {
    // The small model's steps take seconds without vectors.
    for (const path of kind === 'cpu' && make !== smallModernModel ? codePaths() : [undefined]) {
      using device = path ? openPath(path) : Device.open({ kind });
      const model = make(device);
      const trainer = new Trainer(model, { batch: B, sequence: T, accumulation: 1, ...recorded.training });
      for (const [index, loss] of recorded.losses.entries()) {
        const result = await trainer.step(index, recorded.factors[index]!, () => batchAt(index));
        expect(Math.abs(result.loss - loss), `${path}: loss of step ${index}`).toBeLessThan(1e-5);
        const norm = recorded.norms?.[index] ?? result.norm;
        expect(Math.abs(result.norm - norm), `${path}: norm of step ${index}`).toBeLessThan(1e-4);
      }
      for (const [name, most] of recorded.finals) {
        expectClose(`${path}: ${name}`, floats(model.masters.get(name)), tensors.get(`final/${name}`).values, most);
      }
    }
  });
});

describeBackends('model', (_, kind) => {
  it('forward equals PyTorch, activation by activation', () => {
    using device = Device.open({ kind });
    const model = recordedModel(device);
    const batch = forwardOf(model, recordedBatch, tinyFixture.batch.T);
    const recordedNames = {
      ...({ ln1: 'ln1', qkv: 'qkv', attention: 'atty', residual2: 'residual2' } as const),
      ...({ ln2: 'ln2', fc: 'fch', activated: 'fch_gelu', residual3: 'residual3' } as const),
    };
    expectClose('embedded', floats(batch.model.embedded), tinyTensors.get('activation/encoded').values);
    batch.layers.forEach((layer, index) => {
      for (const [ours, theirs] of Object.entries(recordedNames)) {
        const recorded = tinyTensors.get(`activation/h.${index}.${theirs}`).values;
        expectClose(`h.${index}.${ours}`, floats(layer[ours as keyof typeof recordedNames]!), recorded, 1e-5);
      }
    });
    expectClose('lnf', floats(batch.model.lnf), tinyTensors.get('activation/lnf').values, 1e-5);
    expectClose('losses', floats(batch.model.losses), tinyTensors.get('losses').values, 1e-6);
  });

  it('a parameter takes as many values as it has', () => {
    using device = Device.open({ kind });
    const { masters } = recordedModel(device);
    const [wte] = parameterTable(tinyConfig);
    const before = masters.read(wte!);
    for (const count of [0, before.length - 1, before.length + 1]) {
      expect(() => masters.write(wte!, new Float32Array(count))).toThrow(`needs ${before.length} values, not ${count}`);
    }
    expect(masters.read(wte!)).toEqual(before);
  });

  it('steps begun ahead keep their results, read late and in any order', async () => {
    using device = Device.open({ kind });
    const one = tinyTrainer(recordedModel(device));
    const wanted = [];
    for (let index = 0; index < 5; index++) wanted.push(await one.step(index, 1e-3, () => recordedBatch));
    const ahead = tinyTrainer(recordedModel(device));
    const begun = [];
    for (let index = 0; index < 5; index++) begun.push(await ahead.begin(index, 1e-3, () => recordedBatch));
    const results = [];
    for (const step of begun.reverse()) results.unshift(await step.finished());
    expect(results).toEqual(wanted);
    expect(await begun[2]!.finished()).toEqual(wanted[2]);
  });

  it.each([1, 3])('an update left to the next step gives the same bits, %i micro-batches', async (accumulation) => {
    const run = async (defersUpdate: boolean) => {
      using device = Device.open({ kind, accumulates: accumulation > 1 });
      const model = recordedModel(device);
      const trainer = tinyTrainer(model, { accumulation, gradientClip: 0.5, defersUpdate });
      const copies = [model.masters, model.weights, ...trainer.optimizerState.copies.map(({ copy }) => copy)];
      const state = () => hashOf(copies.flatMap(({ matrices, vectors }) => [matrices, vectors]));
      const seen: unknown[] = [];
      for (let index = 0; index < 8; index++) {
        // A step whose update is refused, and a state that is looked at between two steps.
        const limits = index === 3 ? { norm: 0 } : {};
        const learningRate = 1e-3 / (index + 1);
        const { finished } = await trainer.begin(index, learningRate, () => recordedBatch, limits);
        if (index === 5) {
          trainer.update();
          trainer.update();
          seen.push(state());
        }
        seen.push(await finished());
      }
      trainer.update();
      return [...seen, state()];
    };
    expect(await run(true)).toEqual(await run(false));
  });

  it('has zero padding rows that stay zero', async () => {
    using device = Device.open({ kind });
    const model = drawnModel(device);
    const trainer = tinyTrainer(model);
    for (let index = 0; index < 3; index++) await trainer.step(index, 1e-3, () => recordedBatch);
    const padding = floats(model.weights.get('wte')).subarray(61 * 48);
    expect(padding.length).toBe((128 - 61) * 48);
    expect(padding.every((value) => value === 0)).toBe(true);
  });

  it('gives the same loss when the head goes in chunks', () => {
    using device = Device.open({ kind });
    // 5 x 256 = 1280 tokens: a chunk of 1024 and one of 256. The second model sees each sequence alone, in one chunk.
    const config = { ...tinyConfig, context: 256 };
    const [rows, length] = [5, 256];
    const model = createModel(device, config, { B: rows, T: length, purpose: 'training' });
    for (const { name } of parameterTable(config)) {
      const tensor = model.weights.get(name);
      tensor.write(Float32Array.from({ length: tensor.count }, (_, index) => Math.sin(index * 0.7) * 0.1));
    }
    const tokens = Int32Array.from({ length: rows * length }, (_, index) => (index * index * 7 + 3) % 61);
    const targets = Int32Array.from(tokens, (token) => (token * 5 + 1) % 61);
    const losses = floats(forwardOf(model, { inputs: tokens, targets }, length).model.losses);
    for (let row = 0; row < rows; row++) {
      const range = [row * length, (row + 1) * length] as const;
      const batch = { inputs: tokens.subarray(...range), targets: targets.subarray(...range) };
      const alone = floats(forwardOf(model, batch, length).model.losses);
      expectClose(`losses of sequence ${row}`, alone, losses.subarray(...range), 1e-6);
    }
  });

  it.runIf(kind === 'cpu')('gives the same bits with 1, 2 and 3 threads', async () => {
    const hashes = new Set<string>();
    for (const threads of [1, 2, 3]) {
      using device = Device.open({ kind, threads });
      const model = recordedModel(device);
      const trainer = tinyTrainer(model, { accumulation: 2 });
      for (let index = 0; index < 3; index++) await trainer.step(index, 1e-3, () => recordedBatch);
      hashes.add(hashOf([model.weights.matrices, model.weights.vectors]));
    }
    expect(hashes.size).toBe(1);
  });
});

describe('parameters', () => {
  it('of a modern GPT are those that were recorded', () => {
    const table = parameterTable(tinyModernConfig);
    expect(table.map(({ name }) => name)).toEqual(Object.keys(modern.draws));
    expect(parameterCount(tinyModernConfig)).toBe(table.reduce((sum, parameter) => sum + realCount(parameter), 0));
    expect(modelLabel({ ...presetConfig('d12')!, ...modernParts })).toBe('l12-c768-h12');
  });

  it.each([
    ['d12', 124_439_808],
    ['d24', 354_823_168],
    ['d36', 774_030_080],
    ['d48', 1_557_611_200],
  ])('%s has %i, as published', (name, count) => {
    expect(parameterCount(presetConfig(name)!)).toBe(count);
  });
});
