// The presets of `train`: ready-made runs, that is, values of options, which --config and flags override. `gpt2 presets` lists them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { referenceFolder } from '../base/package-root.ts';
import { preproOf } from '../data/datasets/datasets.ts';
import { customModel, type ModelConfig, modelLabel, presetConfig } from '../model/config.ts';
import type { TrainOptions } from './train-options.generated.ts';

interface Preset {
  /** The purpose of the run, in one line. */
  readonly about: string;
  readonly options: TrainOptions & { readonly data: string };
}

const table = {
  'shakespeare-laptop': {
    about: 'a small model of characters: words and speakers of Shakespeare after minutes on two CPU cores',
    options: {
      // nanoGPT's model for CPUs, with three times nanoGPT's learning rate, which reaches a lower loss in the same time.
      ...{ model: 'custom', layers: 4, channels: 128, heads: 4, context: 64 },
      ...{ data: 'data/tinyshakespeare-char', order: 'sequence', batch: 12, sequence: 64 },
      ...{ steps: 3000, learningRate: 3e-3, warmup: 100, schedule: 'cosine', finalLearningRateFraction: 0.1 },
      // fp32, as in the recorded curves of this preset.
      ...{ weightDecay: 0.1, beta2: 0.99, dtype: 'fp32' },
      ...{ valEvery: 500, valTokens: 'all', sampleEvery: 500, logEvery: 100 },
    },
  },
  'gpt2-124m-fineweb': {
    about: "llm.c's reproduction of GPT-2 124M: one epoch of FineWeb's 10 billion tokens; GPUs share the total batch",
    options: {
      ...{ model: 'd12', data: 'data/fineweb10B', order: 'llmc', batch: 64, sequence: 1024, totalBatch: 524_288 },
      ...{ learningRate: 6e-4, warmup: 700, schedule: 'cosine', finalLearningRateFraction: 0, weightDecay: 0.1 },
      ...{ valEvery: 250, valTokens: 1_310_720, sampleEvery: 1000 },
    },
  },
  finetune: {
    about: "the pretrained GPT-2 124M at nanoGPT's rate for fine-tuning; on text of your own with --data data/NAME",
    options: {
      ...{ model: 'openai-community/gpt2', data: 'data/tinyshakespeare', batch: 4, sequence: 1024, totalBatch: 32_768 },
      ...{ steps: 20, learningRate: 3e-5, schedule: 'constant', weightDecay: 0.1 },
      ...{ valEvery: 5, sampleEvery: 5 },
    },
  },
} as const satisfies Record<string, Preset>;

/** Presets from recorded reference curves, by the curve's name. Options here replace options from the curve's file. */
const curves = {
  'llmc-d6-fp32-b4-t64': {},
  'llmc-d12-fp32-b4-t64': {},
  'llmc-d12-fp32-b4-t1024': {},
  'llmc-d12-bf16-b4-t1024': {},
  // These options are from llm.c's scripts/run_gpt2_124M.sh, because the published record of this curve lacks the command.
  'llmc-d12-fineweb10b-8xh100': {
    ...{ batch: 64, sequence: 1024, totalBatch: 524_288, ranks: 8, order: 'llmc', seed: 42 },
    ...{ weightDecay: 0.1, gradientClip: 1, valSteps: 20 },
  },
  // Curves of PyTorch with the options that `train --steps 400` has by default: on a GPU, and on a CPU without AMX.
  'pytorch-d12-b4-t1024-tinyshakespeare': {},
  'pytorch-d6-b4-t64-tinyshakespeare': {},
  'pytorch-d6-fp32-b4-t64-moby-dick': {},
  'pytorch-laptop-moby-dick-1200': {},
  'pytorch-laptop-moby-dick-3000': {},
  'pytorch-laptop-tinyshakespeare-1200': {},
  'pytorch-laptop-tinyshakespeare-3000': {},
} as const satisfies Record<string, TrainOptions>;

type CurveName = keyof typeof curves;
export type PresetName = keyof typeof table | CurveName;
export const runPresetNames = [...Object.keys(table), ...Object.keys(curves)] as readonly PresetName[];

/**
 * The preset with this name, and the commands that prepare its data. Reads a curve's file only now, so that importing the package
 * reads no file.
 */
export function readPreset(name: PresetName): Preset & { readonly prepare: readonly string[] } {
  const preset = Object.hasOwn(curves, name) ? readCurve(name as CurveName) : table[name as keyof typeof table];
  return { ...preset, prepare: [preproOf[preset.options.data]!] };
}

function readCurve(name: CurveName): Preset {
  const { source, configuration } = JSON.parse(readFileSync(join(referenceFolder, `${name}.json`), 'utf8')) as {
    source: { program: string; hardware: string; precision: string };
    configuration: Preset['options'] & ModelConfig & { model: string; steps: number };
  };
  const { model, steps, data } = configuration;
  // Leave out sizes that the model's name implies, so that they do not override the sizes of another --model.
  const sizes = presetConfig(model) ?? { vocabularySize: 'from the data' };
  const recorded = Object.fromEntries(Object.entries(configuration).filter(([option]) => !(option in sizes)));
  const options: Preset['options'] = { ...recorded, ...curves[name], data: `data/${data}` };
  const label = model === customModel ? modelLabel(configuration) : model;
  const trained = `${label}, ${data}, ${steps} steps of ${options.totalBatch} tokens`;
  return { about: `${source.program}'s curve: ${trained}, ${source.precision}, on ${source.hardware}`, options };
}
