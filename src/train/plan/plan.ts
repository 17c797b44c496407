// Plans a run without starting it (--dry-run): memory by kind, size of a step, whether it fits.
import { attempt } from '../../base/errors.ts';
import type { Recompute } from '../../model/activation-tables.ts';
import { modelLabel } from '../../model/config.ts';
import { availableMemory, hostMemory } from '../../model/memory.ts';
import { parameterCount } from '../../model/parameters.ts';
import { Device } from '../../native/device.ts';
import { loadFolders } from '../../ops/kernels/card-hash.ts';
import type { LoadedCard } from '../../ops/kernels/kernel-card.ts';
import { chooseOptimizer } from '../../optimizer/choose.ts';
import { nameSources, resolveSources, type Sources } from '../../options/sources.ts';
import type { ResolvedOptions, TrainOptions } from '../../options/table.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { FetchOptions } from '../../weights/formats/hub-cache.ts';
import { checkMemory, savingBytes, trainingPlan } from './plan-memory.ts';
import { resolveOptions, sharesOf, takesSamples } from './resolve-options.ts';

/** The result of --dry-run. */
export interface TrainingPlan {
  readonly preset?: Sources['preset'];
  readonly recipe?: Sources['recipe'];
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
  /** Free bytes of device memory. */
  readonly available: number;
  /** Bytes of host memory for the copy from which checkpoints are written; 0: no copy is made. */
  readonly savingMemory: number;
  /** Free bytes of host memory. */
  readonly availableHost: number;
  /** Why the run does not fit, and flags that would fit; undefined if it fits. */
  readonly refusal: string | undefined;
}

/**
 * Plans a run with these options. Downloads a model of the Hugging Face hub if `model` names one.
 * @throws as `openRun` before it allocates
 * @example
 * const plan = await planRun({ model: 'd6', device: 'cpu' }, console.log);
 * console.log(plan.parameters, plan.refusal ?? 'fits');
 */
export async function planRun(
  options: TrainOptions,
  notice: (text: string) => void = () => {},
  onProgress?: FetchOptions['onProgress'],
): Promise<TrainingPlan> {
  return planSources(resolveSources(options), { notice, onProgress });
}

/** As `planRun`, for options whose sources are resolved. */
export async function planSources(sources: Sources, fetching: FetchOptions): Promise<TrainingPlan> {
  const { preset, recipe } = sources;
  const { options, deviceOptions, config, tokenizer } = await resolveOptions(sources.options, fetching).catch(
    (error) => {
      throw nameSources(error, sources);
    },
  );
  using device = Device.open(deviceOptions);
  const { batch, sequence, accumulation, ranks, recompute } = options;
  const sizes = memorySizes(options, tokenizer, await loadFolders(options.kernels));
  const refusal = attempt(() => checkMemory(device, config, sizes));
  return {
    preset,
    recipe,
    model: modelLabel(config),
    parameters: parameterCount(config),
    device: describeDevice(device),
    ...{ batch, sequence, accumulation, ranks, recompute },
    memory: trainingPlan(device, config, sizes),
    available: availableMemory(device).available,
    savingMemory: savesFromCopy(options, device) ? savingBytes(device, config, sizes) : 0,
    availableHost: hostMemory().available,
    refusal: refusal?.message,
  };
}

/** Whether saves write from a copy; on the CPU a save needs none if training waits for it. */
const savesFromCopy = (options: ResolvedOptions, { description }: Device): boolean =>
  description.library === 'cuda' || options.saveEvery !== 0 || sharesOf(options) > 1;

/** The sizes that memory depends on. */
export const memorySizes = (
  options: ResolvedOptions,
  tokenizer: Tokenizer | undefined,
  cards: readonly LoadedCard[],
) => {
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
    samples: takesSamples(sampleEvery, tokenizer),
    cards,
  };
};

/** "cpu avx512 fp32 (no AMX for bf16), 4 threads", "cuda portable bf16, NVIDIA H100 80GB HBM3" */
export function describeDevice({ description, dtype }: Device): string {
  const { library, codePath, threads, device } = description;
  const reasons = {
    bf16: codePath === 'amx' ? ' (fast by AMX)' : '',
    fp32: codePath === 'amx' ? '' : ' (no AMX for bf16)',
  };
  const why = library === 'cpu' && dtype in reasons ? reasons[dtype as keyof typeof reasons] : '';
  return `${library} ${codePath} ${dtype}${why}, ${library === 'cpu' ? `${threads} ${threads === 1 ? 'thread' : 'threads'}` : device}`;
}
