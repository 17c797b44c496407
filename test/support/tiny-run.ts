// A run of a few milliseconds, for tests of what a run does besides learning.
import { type ProgramOptions, type TrainHooks, type TrainOptions, train } from '../../src/index.ts';

export const tinySizes = { layers: 1, channels: 32, heads: 2, context: 32 };

/** Options for one thread and short sequences, without validation or samples; `data` and `out` are to be added. */
export const tinyRun: TrainOptions = {
  ...{ device: 'cpu', threads: 1, ...tinySizes, batch: 1, sequence: 32, valEvery: 0, sampleEvery: 0 },
};

/** Trains, and gives what was noticed. */
export async function noticesOf(options: ProgramOptions, hooks: TrainHooks = {}): Promise<string[]> {
  const notices: string[] = [];
  await train(options, { ...hooks, onNotice: (text) => notices.push(text) });
  return notices;
}
