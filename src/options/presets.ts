// The presets of `train`: ready-made runs as options of the table, which --config and flags override. `gpt2 presets` lists them.
import type { RecordedName, TrainOptions } from './table.ts';

interface Preset {
  /** What it trains, in one line. */
  readonly about: string;
  /** Commands that make its data. */
  readonly prepare: readonly string[];
  readonly options: Pick<TrainOptions, RecordedName>;
}

const table = {
  'shakespeare-laptop': {
    about: 'a small model of characters: words and speakers of Shakespeare after minutes on two CPU cores',
    prepare: ['npm run prepro tinyshakespeare -- --tokenizer char'],
    options: {
      // nanoGPT's model for CPUs. Its rate is a third of this one, which reaches a lower loss in the same time.
      ...{ model: 'custom', layers: 4, channels: 128, heads: 4, context: 64 },
      ...{ data: 'data/tinyshakespeare-char', order: 'sequence', batch: 12, sequence: 64 },
      ...{ steps: 3000, learningRate: 3e-3, warmup: 100, schedule: 'cosine', finalLearningRateFraction: 0.1 },
      ...{ weightDecay: 0.1, beta2: 0.99 },
      ...{ valEvery: 500, valTokens: 'all', sampleEvery: 500, logEvery: 100 },
    },
  },
  'gpt2-124m-fineweb': {
    about: "llm.c's reproduction of GPT-2 124M: one epoch of FineWeb's 10 billion tokens; --gpus N divides the batch",
    prepare: ['npm run prepro -- fineweb --version 10B'],
    options: {
      ...{ model: 'd12', data: 'data/fineweb10B', batch: 64, sequence: 1024, totalBatch: 524_288 },
      ...{ learningRate: 6e-4, warmup: 700, schedule: 'cosine', finalLearningRateFraction: 0, weightDecay: 0.1 },
      ...{ valEvery: 250, valTokens: 1_310_720, sampleEvery: 1000 },
    },
  },
  finetune: {
    about: "the pretrained GPT-2 124M at nanoGPT's rate for fine-tuning; on text of your own with --data data/NAME",
    prepare: ['npm run prepro tinyshakespeare'],
    options: {
      ...{ model: 'openai-community/gpt2', batch: 4, sequence: 1024, totalBatch: 32_768 },
      ...{ steps: 20, learningRate: 3e-5, schedule: 'constant', weightDecay: 0.1 },
      ...{ valEvery: 5, sampleEvery: 5 },
    },
  },
} as const satisfies Record<string, Preset>;

export type PresetName = keyof typeof table;

/** The table without the literal types of its values. */
export const presets: Readonly<Record<PresetName, Preset>> = table;
export const runPresetNames = Object.keys(table) as readonly PresetName[];
