// A trainer of a small model, and batches of random tokens, for tests of training on a GPU.
import type { Batch, Device, ModelConfig, Trainer } from '../../src/index.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { drawnModel, tinyTrainer } from './tiny-model.ts';

export const small: ModelConfig = { layers: 3, channels: 192, heads: 3, context: 256, vocabularySize: 1000 };

/** Batches of seeded tokens, the same for the same seed. */
export function batches(seed: number, count: number, below: number): () => Batch {
  const random = new Random(seed);
  return () => ({ inputs: random.integers(count, below), targets: random.integers(count, below) });
}

export function makeTrainer(device: Device, config: ModelConfig, B: number, T: number, accumulation: number): Trainer {
  const model = drawnModel(device, config, { B, T, purpose: 'training' });
  return tinyTrainer(model, { batch: B, sequence: T, accumulation });
}
