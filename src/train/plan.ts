// Plans a run without starting it (--dry-run): memory by kind, the size of a step, whether it fits.
import { stateCopyBytes } from '../checkpoint/background.ts';
import { Gpt2Error } from '../errors.ts';
import type { Recompute } from '../model/activations.ts';
import { type ModelConfig, modelLabel } from '../model/config.ts';
import { availableMemory, hostMemory } from '../model/memory.ts';
import { parameterCount } from '../model/parameters.ts';
import { Device } from '../native/device.ts';
import { chooseOptimizer } from '../optimizer/choose.ts';
import type { SettledOptions, TrainOptions } from '../options/table.ts';
import { checkMemory, trainingPlan } from './memory.ts';
import { settle, sharesOf, takesSamples } from './settle.ts';

/** The result of --dry-run. */
export interface TrainingPlan {
  /** "d12", or sizes. */
  readonly model: string;
  readonly parameters: number;
  /** "cuda sm90 bf16, NVIDIA H100 80GB HBM3" */
  readonly device: string;
  readonly batch: number;
  readonly sequence: number;
  readonly accumulation: number;
  readonly ranks: number;
  readonly recompute: Recompute;
  /** Bytes of device memory by kind. */
  readonly memory: ReadonlyMap<string, number>;
  /** Bytes free there. */
  readonly available: number;
  /** Bytes of host memory that the saving process takes for a copy; 0: it saves without one. */
  readonly savingMemory: number;
  /** Bytes free there. */
  readonly availableHost: number;
  /** Why it does not fit, and which flags would; undefined: it fits. */
  readonly refusal: string | undefined;
}

/**
 * Plans a run with these options.
 * @throws as `openRun` before it allocates
 * @example
 * const plan = planRun({ model: 'd6', device: 'cpu' }, console.log);
 * console.log(plan.parameters, plan.refusal ?? 'fits');
 */
export function planRun(given: TrainOptions, notice: (text: string) => void): TrainingPlan {
  const { options, deviceOptions, config } = settle(given, notice);
  using device = Device.open(deviceOptions);
  const { batch, sequence, accumulation, ranks, recompute } = options;
  const sizes = memorySizes(options, config);
  let refusal: string | undefined;
  try {
    checkMemory(device, config, sizes);
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    refusal = error.message;
  }
  return {
    model: modelLabel(config),
    parameters: parameterCount(config),
    device: describeDevice(device),
    ...{ batch, sequence, accumulation, ranks, recompute },
    memory: trainingPlan(device, config, sizes),
    available: availableMemory(device).available,
    savingMemory: savesFromCopy(options, device) ? stateCopyBytes(config, sizes.optimizer) : 0,
    availableHost: hostMemory().available,
    refusal,
  };
}

/** On the CPU a save needs no copy if training waits for it. */
const savesFromCopy = (options: SettledOptions, { description }: Device): boolean =>
  description.library === 'cuda' || options.saveEvery > 0 || sharesOf(options) > 1;

/** The options that memory depends on. */
export const memorySizes = (options: SettledOptions, config: ModelConfig) => {
  const { batch, sequence, totalBatch, recompute, maxMemory, ranks, sampleEvery } = options;
  return {
    optimizer: chooseOptimizer(options),
    B: batch,
    T: sequence,
    rows: totalBatch / sequence / ranks,
    ranks,
    shares: sharesOf(options),
    recompute,
    maxMemory,
    samples: takesSamples(sampleEvery, config),
  };
};

/** "cpu avx512 fp32, 4 threads", "cuda portable bf16, NVIDIA H100 80GB HBM3" */
export function describeDevice({ description, dtype }: Device): string {
  const { library, codePath, threads, device } = description;
  return `${library} ${codePath} ${dtype}, ${library === 'cpu' ? `${threads} threads` : device}`;
}
