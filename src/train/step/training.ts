// Allocates the device memory of a training run: the model, the memory of its steps, and the key-value cache for text samples. The
// plan of a run (plan/plan-memory.ts) calls this for an absent device, which only counts bytes.
import type { Recompute } from '../../model/activation-tables.ts';
import type { ModelConfig } from '../../model/config.ts';
import { KeyValueCache } from '../../model/key-value-cache.ts';
import { createModel } from '../../model/model.ts';
import { Sharding } from '../../model/sharded-parameters.ts';
import type { Communicator } from '../../native/communicator.ts';
import type { Device } from '../../native/device.ts';
import { type OptimizerChoice, updatedWhole } from '../../optimizer/assign.ts';
import { Trainer, type TrainerOptions } from './trainer.ts';

export interface TrainingSizes {
  readonly B: number;
  readonly T: number;
  readonly optimizer: OptimizerChoice;
  /** Sequences of a rank in a step; if more than B, micro-batches accumulate. Default B. */
  readonly rows?: number | undefined;
  /** Activations that backward recomputes. Default none. */
  readonly recompute?: Recompute | undefined;
  /** Whether text is sampled, which needs a key-value cache. Default false. */
  readonly samples?: boolean | undefined;
  /** Number of ranks between which optimizer state and master weights are divided. Default 1. */
  readonly shares?: number | undefined;
}

type Steps = Partial<Pick<TrainerOptions, 'gradientClip' | 'overlapsBackward' | 'windowsAt'>> & {
  readonly communicator?: Communicator | undefined;
};

/** Creates model, trainer and cache. `gradientClip` is 1 by default. @throws as `createModel`, `Trainer` and `KeyValueCache` */
export function createTraining(
  device: Device,
  config: ModelConfig,
  { B, T, optimizer, rows = B, recompute, samples = false, shares = 1 }: TrainingSizes,
  { communicator, gradientClip = 1, ...others }: Steps = {},
) {
  const sharding = communicator && shares > 1 ? new Sharding(communicator, config, updatedWhole(optimizer)) : undefined;
  const model = createModel(device, config, { B, T, purpose: 'training', recompute }, sharding);
  const steps = { batch: B, sequence: T, accumulation: rows / B, optimizer, gradientClip, ...others };
  const trainer = new Trainer(model, steps, communicator);
  const cache = samples ? new KeyValueCache(model, { texts: 1, window: T }) : undefined;
  return { model, trainer, cache };
}
