// Plans the device memory of a training run before anything is allocated: the figures of --dry-run, the choice of --batch auto,
// and advice on flags with which a run would fit.
import { gpt2Error, words } from '../../base/errors.ts';
import { type Recompute, recomputeNames } from '../../model/activation-tables.ts';
import type { ModelConfig } from '../../model/config.ts';
import { plannedGpu } from '../../model/flops.ts';
import { enoughRows, gib, largestFitting, memoryLimit, neededFor, upTo } from '../../model/memory.ts';
import { absentDevice } from '../../native/absent-device.ts';
import { GPT2_COMMUNICATOR } from '../../native/bindings.generated.ts';
import { Communicator } from '../../native/communicator.ts';
import { Device, type DeviceOptions } from '../../native/device.ts';
import { callCards } from '../../ops/kernels/card-scratch.ts';
import type { LoadedCard } from '../../ops/kernels/kernel-card.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import type { DefaultedOptions, ResolvedOptions } from '../../options/table.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { BackgroundWriter } from '../../weights/checkpoint/background.ts';
import { createTraining, type TrainingSizes } from '../step/training.ts';

export interface PlanSizes extends TrainingSizes {
  readonly cards?: readonly LoadedCard[] | undefined;
  /** Rows of the buffer for gradients that a rank receives from others (`Communicator.parts`). Default: the maximum, `shares`. */
  readonly parts?: number | undefined;
}

/** The number of ranks between which ZeRO-1 divides the optimizer state; 1 with --zero 0. */
export const sharesOf = ({ ranks, zero }: Pick<ResolvedOptions, 'ranks' | 'zero'>): number => (zero === 1 ? ranks : 1);

/** The sizes of a run without B, the batch, from its options. `rows` is undefined if no option says how many sequences a step has. */
export const sizesOf = (
  options: Omit<DefaultedOptions, 'batch' | 'recompute'> & { readonly recompute?: Recompute | undefined },
  found: { readonly tokenizer: Tokenizer | undefined; optimizer: OptimizerChoice; cards: readonly LoadedCard[] },
) => {
  const { sequence: T, totalBatch, recompute, maxMemory, ranks, sampleEvery } = options;
  const { tokenizer, optimizer, cards } = found;
  const rows = totalBatch && totalBatch / T / ranks;
  // A run samples text only if a known tokenizer can decode the tokens.
  const samples = sampleEvery > 0 && tokenizer !== undefined;
  return { T, optimizer, rows, recompute, samples, shares: sharesOf(options), cards, ranks, maxMemory };
};

/**
 * Creates a run's model and trainer on an absent device, which counts bytes but allocates nothing. The dtype of gradients depends on
 * whether a step accumulates micro-batches. The dtype follows from `rows` and `B`, not from `device`, so that any batch can be planned.
 * @returns also counts of a step's op calls: `called` by kernel cards; `others` by the library, for variants that no card computes
 */
function createAbsent(device: Device, config: ModelConfig, { cards = [], parts, ...sizes }: PlanSizes) {
  const { dtype, description } = device;
  const { B, rows = B, shares: ranks = 1 } = sizes;
  const absent = absentDevice(
    { kind: description.library, dtype, accumulates: rows > B },
    { scratchOf: device, parts: parts ?? ranks },
  );
  const id = new Uint8Array(GPT2_COMMUNICATOR.GPT2_COMMUNICATOR_ID_SIZE);
  const communicator =
    ranks === 1 ? undefined : new Communicator(absent, { id, rank: 0, ranks, timeoutMilliseconds: 0 });
  const { model, trainer } = createTraining(absent, config, sizes, { communicator });
  return { model, trainer, ...callCards(absent, cards, () => trainer.enqueueOps()) };
}

/** Bytes of device memory for training, by name of the allocation. */
export const trainingPlan = (device: Device, config: ModelConfig, sizes: PlanSizes): ReadonlyMap<string, number> =>
  createAbsent(device, config, sizes).model.device.allocated;

/** `memory`: bytes as in `trainingPlan`. `copyBytes`: bytes of host memory for the copy of the run's state that a save makes. */
export function plannedMemory(device: Device, config: ModelConfig, sizes: PlanSizes) {
  const { model, trainer } = createAbsent(device, config, sizes);
  const { copyBytes } = new BackgroundWriter(model, trainer.optimizerState.copies);
  return { memory: model.device.allocated as ReadonlyMap<string, number>, copyBytes };
}

/** A notice if another dtype is faster on the device: a CPU without AMX multiplies fp32 faster than bf16. */
export const dtypeNotices = ({ dtype, description: { library, codePath } }: Device): readonly string[] =>
  library === 'cpu' && dtype === 'bf16' && codePath !== 'amx'
    ? [words`--dtype bf16 has no AMX on code path ${codePath}: --dtype fp32 is faster here`]
    : [];

/** Notices about kernel cards for ops that a step never calls, and about variants of the cards' ops that the library computes. */
export function cardNotices(device: Device, config: ModelConfig, sizes: PlanSizes): readonly string[] {
  const { called, others } = createAbsent(device, config, sizes);
  const uncalled = (sizes.cards ?? []).filter(({ op }) => !called.has(op)).map(({ op }) => op);
  const step = `a step of this model in ${device.dtype}`;
  const calls = [...others].map(([name, count]) => `${count} ${count === 1 ? 'call' : 'calls'} of ${name}`);
  return [
    ...(uncalled.length > 0 ? [`${step} has no ${uncalled.join(', ')}: training does not use kernels for them`] : []),
    ...(calls.length > 0 ? [`${step} has ${calls.join(', ')}: no kernel card computes them, so the library does`] : []),
  ];
}

/** Bytes of free device memory that a run needs to start: all allocations plus a reserve. */
export const neededBytes = (device: Device, config: ModelConfig, sizes: PlanSizes): number =>
  neededFor(device, trainingPlan(device, config, sizes));

/** Sizes of micro-batches that divide a step of `rows` sequences, ascending. */
export const divisors = (rows: number): number[] => upTo(rows).filter((batch) => rows % batch === 0);

/**
 * Checks that a run fits in memory. `hasRecompute`: whether the error may advise --recompute, which not every command has; default true.
 * @throws Gpt2Error naming the bytes needed and free, and the --batch (a divisor of `rows`) or --recompute with which the run fits
 */
export function checkMemory(
  device: Device,
  config: ModelConfig,
  asked: PlanSizes & { readonly ranks?: number; readonly maxMemory?: number; readonly hasRecompute?: boolean },
): void {
  const { ranks = 1, maxMemory, hasRecompute = true, ...sizes } = asked;
  const { B, T, rows = B, recompute = 'none' } = sizes;
  const limit = memoryLimit(device, maxMemory);
  const needed = neededBytes(device, config, sizes);
  if (needed <= limit.bytes) return;
  const fits = (changed: Partial<PlanSizes>) => neededBytes(device, config, { ...sizes, ...changed }) <= limit.bytes;
  // If a step is one micro-batch, also advise --total-batch, so that smaller micro-batches accumulate to a step of the same size.
  const keeps = rows === B ? words` --total-batch ${rows * T * ranks}` : '';
  const smaller = divisors(rows).filter((batch) => batch < B);
  const largest = (recompute: Recompute) => largestFitting(smaller, (B) => fits({ B, rows, recompute }));
  const fitting = largest(recompute);
  const kinds = hasRecompute ? recomputeNames.slice(recomputeNames.indexOf(recompute) + 1) : [];
  const stronger = kinds.find((recompute) => fits({ recompute }));
  const strongest = kinds.at(-1) ?? recompute;
  const both = largest(strongest);
  const advice = [
    ...(stronger === undefined ? [] : [words`--recompute ${stronger}`]),
    ...(fitting === undefined ? [] : [words`--batch ${fitting}${keeps}`]),
    ...((stronger ?? fitting ?? both === undefined) ? [] : [words`--batch ${both}${keeps} --recompute ${strongest}`]),
  ];
  // A step of one sequence may still fit: without accumulation, its gradients are bf16 instead of fp32.
  const refused = fits({ B: 1, rows: 1, recompute: strongest })
    ? words`no batch fits a step of this size: take a smaller --batch and --total-batch,`
    : 'no batch fits: take';
  const fix =
    advice.length > 0
      ? `${advice.join(', or ')} fits`
      : words`${refused} a shorter --seq, a smaller --model, or ${limit.remedy}`;
  throw gpt2Error`--batch ${B} with --seq ${T} needs ${gib(needed)} of memory, ${limit.text}; ${fix}`;
}

/** Opens a device; if `name` is set, opens a stand-in for that GPU (--for) instead. @throws UsageError for an unknown GPU */
export function openPlanned(options: DeviceOptions, name: string | undefined): Device {
  if (name === undefined) return Device.open(options);
  const gpu = plannedGpu(name, options.dtype ?? 'fp32');
  return absentDevice(options, { memory: gpu.memory, name: `${gpu.name} that is not here` });
}

/**
 * Chooses the batch of --batch auto: the largest that fits in memory and still gains speed. The batch divides `rows`, the sequences
 * of a step; if `rows` is undefined, a step is one micro-batch. Opens the device for a moment.
 * @param asked if `recompute` is undefined, the setting that recomputes least is chosen among those with which a batch fits
 * @throws Gpt2Error if not one sequence fits
 */
export function chooseBatch(
  device: DeviceOptions,
  config: ModelConfig,
  asked: Omit<PlanSizes, 'B' | 'parts'> & { readonly maxMemory: number | undefined; readonly gpu: string | undefined },
): { readonly batch: number; readonly recompute: Recompute } {
  const { maxMemory, gpu, ...sizes } = asked;
  const { T, rows, recompute } = sizes;
  using opened = openPlanned(device, gpu);
  const most = enoughRows(opened, T);
  const batches = rows === undefined ? upTo(most) : divisors(rows).filter((batch) => batch <= most);
  const limit = memoryLimit(opened, maxMemory);
  for (const each of recompute === undefined ? recomputeNames : [recompute]) {
    const fits = (B: number) => neededBytes(opened, config, { ...sizes, B, recompute: each }) <= limit.bytes;
    // Try the largest batch first: without accumulation gradients are bf16, not fp32, so the largest may fit when smaller ones do not.
    const batch = fits(batches.at(-1)!) ? batches.at(-1) : largestFitting(batches, fits);
    if (batch !== undefined) return { batch, recompute: each };
  }
  throw gpt2Error`--batch auto: not one sequence of --seq ${T} fits, ${limit.text}; take a shorter --seq or a smaller --model`;
}
