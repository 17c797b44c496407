// Plans a run without starting it (--dry-run): memory by kind, whether the run fits, size of a step, steps, epochs and time. With
// --for, the plan is for a GPU that this machine need not have.
import { checkValue } from '../../base/checks/given.ts';
import { attempt } from '../../base/errors.ts';
import type { FetchOptions } from '../../data/datasets/download.ts';
import { openShard } from '../../data/shards/shard.ts';
import type { Recompute } from '../../model/activation-tables.ts';
import { type ModelConfig, modelLabel } from '../../model/config.ts';
import { flopsPerToken, plannedGpu } from '../../model/flops.ts';
import { availableMemory, hostMemory, reserveOf } from '../../model/memory.ts';
import { parameterCount } from '../../model/parameters.ts';
import type { Device } from '../../native/device.ts';
import { loadFolders } from '../../ops/kernels/card-hash.ts';
import { nameSources, resolveSources, type Sources } from '../../options/sources.ts';
import type { ResolvedOptions, TrainOptions } from '../../options/table.ts';
import { measureStep } from './measure.ts';
import { type Outlook, outlookOf, outlookWarnings, stepsOf } from './outlook.ts';
import { checkMemory, openPlanned, plannedMemory, sharesOf, sizesOf } from './plan-memory.ts';
import { type Resolved, resolveOptions } from './resolve-options.ts';

/** The result of --dry-run. */
export interface TrainingPlan extends Outlook {
  readonly preset?: Sources['preset'];
  readonly recipe?: Sources['recipe'];
  /** The name of a preset, such as "d12", or the model's sizes. */
  readonly model: string;
  readonly parameters: number;
  /** Library, code path, dtype and name: "cuda sm90 bf16, NVIDIA H100 80GB HBM3". */
  readonly device: string;
  readonly batch: number;
  readonly sequence: number;
  readonly accumulation: number;
  readonly ranks: number;
  readonly recompute: Recompute;
  /** Bytes of device memory by name of the allocation. */
  readonly memory: ReadonlyMap<string, number>;
  /** Bytes of device memory that must be free in addition to `memory`, for kernels and recorded graphs. */
  readonly reserve: number;
  readonly available: number;
  /** Bytes of host memory for the copy from which checkpoints are written; 0: no copy is made. */
  readonly savingMemory: number;
  readonly availableHost: number;
  /** The reason why the run does not fit in memory, and flags with which the run fits; undefined if the run fits. */
  readonly refusal: string | undefined;
  /** Warnings about many epochs, a long run or a long step, which the user may not have intended. */
  readonly warnings: readonly string[];
}

/**
 * Plans a run with these options; nothing is saved. If the run fits, measures a step for up to 10 s. With the option `for`, plans for
 * a GPU that this machine need not have, without a measurement. Downloads the model if `model` names one of the Hugging Face hub.
 * @throws UsageError for invalid options; Gpt2Error for data or weights that cannot be used
 * @example
 * const plan = await planRun({ model: 'd6', device: 'cpu' }, console.log);
 * console.log(plan.refusal ?? 'fits', plan.epochs, plan.seconds);
 */
export async function planRun(
  options: TrainOptions,
  notice: (text: string) => void = () => {},
  onProgress?: FetchOptions['onProgress'],
): Promise<TrainingPlan> {
  checkValue('options', 'options', options);
  return planSources(resolveSources({ ...options, dryRun: true }), { notice, onProgress });
}

/** Plans as `planRun` does, from options merged with --config, --preset and --recipe. `measure` returns the seconds of a step. */
export async function planSources(
  sources: Sources,
  fetching: FetchOptions,
  measure: typeof measureStep = measureStep,
): Promise<TrainingPlan> {
  const { preset, recipe } = sources;
  const resolved = await resolveOptions(sources.options, fetching).catch((error) => {
    throw nameSources(error, sources);
  });
  const { options, deviceOptions, config, changes } = resolved;
  for (const text of changes) fetching.notice?.(text);
  using device = openPlanned(deviceOptions, options.for);
  const { batch, sequence, accumulation, ranks, recompute } = options;
  const cards = await loadFolders(options.kernels);
  const sizes = { ...sizesOf(options, { ...resolved, cards }), B: batch };
  const refusal = attempt(() => checkMemory(device, config, sizes));
  const { memory, copyBytes: checkpointBytes } = plannedMemory(device, config, sizes);
  const lengths = lengthsOf(resolved);
  // Read the free memory before the measurement below, which allocates.
  const [{ available }, { available: availableHost }] = [availableMemory(device), hostMemory()];
  const isAbsent = options.for !== undefined;
  const stepSeconds = isAbsent
    ? secondsOnGpu(options, config)
    : refusal
      ? undefined
      : await measure(device, config, { ...sizes, shares: 1 });
  const isAbout = isAbsent || ranks > 1 || options.kernels !== undefined;
  const outlook = { ...outlookOf(options, { ...lengths, stepSeconds, checkpointBytes }), isAbout };
  return {
    ...outlook,
    preset,
    recipe,
    model: modelLabel(config),
    parameters: parameterCount(config),
    device: describeDevice(device),
    ...{ batch, sequence, accumulation, ranks, recompute },
    ...{ memory, reserve: reserveOf(device), available },
    savingMemory: savesFromCopy(options, device) ? checkpointBytes : 0,
    availableHost,
    refusal: refusal?.message,
    warnings: outlookWarnings(outlook),
  };
}

/** Estimates the seconds of a step on the GPU that --for names; undefined if its FLOP/s in this dtype are unknown. */
function secondsOnGpu(
  { for: name = '', dtype, totalBatch, ranks, sequence }: ResolvedOptions,
  config: ModelConfig,
): number | undefined {
  const { flops } = plannedGpu(name, dtype);
  return flops && (totalBatch * flopsPerToken(config, sequence)) / (flops * ranks);
}

/** The run's first step, its number of steps, and the tokens of its training data and of one validation, from the shard headers. */
function lengthsOf({ options, checkpoint, trainShards, valShards }: Resolved) {
  const { batch, sequence, ranks, valSteps, valTokens = 'all' } = options;
  const trainingTokens = trainShards.reduce(addTokens, 0);
  const all = valShards.reduce(addTokens, 0);
  const asked = valSteps === undefined ? valTokens : valSteps * batch * sequence * ranks;
  const validationTokens = asked === 'all' ? all : Math.min(asked, all);
  const from = checkpoint?.manifest.step ?? 0;
  return { trainingTokens, validationTokens, from, steps: stepsOf(options, trainingTokens) };
}

function addTokens(sum: number, path: string): number {
  using shard = openShard(path);
  return sum + shard.tokens;
}

/** Whether saves first copy the state to host memory. On one CPU without --save-every, training waits for the only save: no copy. */
const savesFromCopy = (options: ResolvedOptions, { description }: Device): boolean =>
  description.library === 'cuda' || options.saveEvery !== 0 || sharesOf(options) > 1;

/** Describes a device: "cpu avx512 fp32 (no AMX for bf16), 4 threads", "cuda portable bf16, NVIDIA H100 80GB HBM3" */
export function describeDevice({ description, dtype }: Device): string {
  const { library, codePath, threads, device } = description;
  const reasons = {
    bf16: codePath === 'amx' ? ' (fast by AMX)' : '',
    fp32: codePath === 'amx' ? '' : ' (no AMX for bf16)',
  };
  const why = library === 'cpu' && dtype in reasons ? reasons[dtype as keyof typeof reasons] : '';
  return `${library} ${codePath} ${dtype}${why}, ${library === 'cpu' ? `${threads} ${threads === 1 ? 'thread' : 'threads'}` : device}`;
}
