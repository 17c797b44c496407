// The tiny GPT-2 that PyTorch recorded: its model on a device, with the recorded weights in place.
import { uploadsOf } from '../../src/data/batches/batch.ts';
import type { Batch, Device, ModelConfig } from '../../src/index.ts';
import { forward } from '../../src/model/forward.ts';
import { headForward } from '../../src/model/head.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { castWeights, createModel, type Model } from '../../src/model/model.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { readFixture, readFixtureJson } from './fixtures.ts';

export interface TinyModelFixture {
  readonly batch: { readonly B: number; readonly T: number };
  readonly training: { readonly learningRate: number; readonly weightDecay: number; readonly gradClip: number };
  readonly float64: { readonly losses: number[]; readonly norms: number[] };
}

export const tinyConfig: ModelConfig = { layers: 2, channels: 48, heads: 3, context: 32, vocabularySize: 61 };
export const tinyFixture = readFixtureJson<TinyModelFixture>('tiny-model.json');
export const tinyTensors = readFixture('tiny-model.safetensors');

/** The tiny model with PyTorch's weights and batch. */
export function recordedModel(device: Device): Model {
  const model = createModel(device, tinyConfig, { ...tinyFixture.batch, purpose: 'training' });
  for (const { name } of parameterTable(tinyConfig)) {
    model.masters.get(name).write(tinyTensors.get(`weight/${name}`).values);
  }
  castWeights(model);
  return model;
}

/** A model as a seed draws it; the tiny one by default. */
export function drawnModel(
  device: Device,
  config = tinyConfig,
  sizes: Parameters<typeof createModel>[2] = { ...tinyFixture.batch, purpose: 'training' },
  seed = 42,
): Model {
  const model = createModel(device, config, sizes);
  initializeWeights(model, seed);
  return model;
}

/** The recorded batch, as a loader would give it. */
export const recordedBatch = {
  inputs: tinyTensors.get('tokens').values as Int32Array,
  targets: tinyTensors.get('targets').values as Int32Array,
};

/** Runs forward and the head on sequences of a length. @returns their activations */
export function forwardOf(model: Model, batch: Batch, sequence: number) {
  const activations = model.activations.at(batch.inputs.length / sequence, sequence);
  for (const [tensor, values] of uploadsOf(model, activations, batch)) tensor.write(values);
  forward(model, activations);
  headForward(model, activations);
  return activations;
}

type TrainerOptions = ConstructorParameters<typeof Trainer>[1];

/** A trainer for the recorded batch: one micro-batch a step, AdamW, gradients clipped at 1. */
export function tinyTrainer(model: Model, more: Partial<TrainerOptions> = {}): Trainer {
  const { B: batch, T: sequence } = tinyFixture.batch;
  const optimizer = new AdamW({ weightDecay: 0.1 });
  return new Trainer(model, { batch, sequence, accumulation: 1, optimizer, gradientClip: 1, ...more });
}
