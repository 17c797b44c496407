// Makes events of a run that was never trained, and its log, for tests that read logs.
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Configuration } from '../../src/options/table.ts';
import { logPath } from '../../src/runs/paths.ts';
import { formatEvent, type RunEvent } from '../../src/runs/schema.ts';

/** Writes a run folder with this log. */
export function writeLog(run: string, events: readonly RunEvent[]): void {
  mkdirSync(run, { recursive: true });
  writeFileSync(logPath(run), events.map(formatEvent).join(''));
}

/** As llmc-d6-fp32-b4-t64 was configured. */
export const configuration: Configuration = {
  ...{ model: 'd6', layers: 6, channels: 384, heads: 6, context: 1024, vocabularySize: 50257 },
  ...{ data: 'data/tinyshakespeare', order: 'llmc', batch: 4, sequence: 64, totalBatch: 256, steps: 400, seed: 42 },
  ...{ learningRate: 6e-4, warmup: 40, schedule: 'cosine', finalLearningRateFraction: 0.1 },
  ...{ weightDecay: 0.1, gradientClip: 1, overfitBatch: false },
  ...{ valEvery: 50, valSteps: 20, sampleEvery: 0, saveEvery: 0, device: 'cpu', dtype: 'fp32', threads: 0 },
};

/** The line that a start writes. */
export const runEvent = (changes: Partial<Configuration> = {}) =>
  ({
    ...{ event: 'run', configuration: { ...configuration, ...changes }, program: 'gpt2.ts 0', device: 'CPU' },
    ...{ codePath: 'portable', dtype: 'fp32', parameters: 30_339_456, time: '2026-01-01T00:00:00Z' },
  }) as const satisfies RunEvent;

export const trainEvent = (step: number, loss: number, norm = 1.5, lr = 3e-4) =>
  ({ event: 'train', step, loss, norm, lr, tokensPerSecond: 10, ms: 1 }) as const satisfies RunEvent;
