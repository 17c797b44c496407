// Plans the device memory of a training run before anything is allocated: what --dry-run prints, what --batch auto
// chooses, and flags that fit where a batch does not.
import { Gpt2Error, words } from '../../base/errors.ts';
import { type Recompute, recomputeNames } from '../../model/activation-tables.ts';
import { activationBytes } from '../../model/activations.ts';
import { arenaLayout, parameterBytes } from '../../model/arena.ts';
import type { ModelConfig } from '../../model/config.ts';
import { cacheBytes, decodeScratch } from '../../model/key-value-cache.ts';
import { enoughRows, gib, type MemoryLimit, memoryLimit, neededFor } from '../../model/memory.ts';
import { createModel, modelScratch } from '../../model/model.ts';
import { rotationPlan } from '../../model/positions.ts';
import { gatheringBytes } from '../../model/sharded-parameters.ts';
import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { sharedBytes } from '../../native/communicator.ts';
import { Device, type DeviceOptions, elementTypesOf } from '../../native/device.ts';
import { bytesOf } from '../../native/element-types.ts';
import { type AbsentStep, cardScratch, uncalledCards } from '../../ops/kernels/card-scratch.ts';
import type { LoadedCard } from '../../ops/kernels/kernel-card.ts';
import { globalNormScratch } from '../../ops/ops.generated.ts';
import { type OptimizerChoice, scratchOf, stateBytes, updatedEntire } from '../../optimizer/assign.ts';
import { scratchMemory, stateMemory } from '../../optimizer/state.ts';
import { StepOps } from '../step/step-ops.ts';

export interface TrainingSizes {
  /** Sequences in a micro-batch. */
  readonly B: number;
  /** Tokens in a sequence. */
  readonly T: number;
  readonly optimizer: OptimizerChoice;
  /** Sequences of a rank in a step: more than B accumulate. Default B. */
  readonly rows?: number;
  /** Default none. */
  readonly recompute?: Recompute;
  /** Whether text is sampled, which needs a key-value cache. Default false. */
  readonly samples?: boolean;
  /** Ranks between which optimizer state and master weights are divided. Default 1. */
  readonly shares?: number;
  /** Kernels that replace ops. Default none. */
  readonly cards?: readonly LoadedCard[];
  /** Rows of received gradients (Communicator.parts). Default `shares`, the most. */
  readonly parts?: number;
}

/**
 * Bytes of device memory for training, by name of the allocation. The dtype of gradients follows from `rows`,
 * not from how `device` was opened, so that other batches can be planned too.
 */
export function trainingPlan(device: Device, config: ModelConfig, sizes: TrainingSizes): ReadonlyMap<string, number> {
  const { B, T, optimizer, rows = B, recompute, samples = false, shares = 1, parts = shares, cards = [] } = sizes;
  const { dtype, description } = device;
  const { elementType, gradientType } = elementTypesOf({ kind: description.library, dtype, accumulates: rows > B });
  const division = { shares, entire: updatedEntire(optimizer) };
  const { matrix: matrixCount, vector: vectorCount } = arenaLayout(config, division).sizes;
  const fp32 = (matrixCount / shares + vectorCount) * bytesOf('fp32');
  const cache = { texts: 1, window: T };
  const scratch = scratchOf(device, config, optimizer);
  return new Map([
    ['weights', parameterBytes(config, elementType, elementType, division)],
    ...(elementType === 'fp32' ? [] : [['master weights', fp32] as const]),
    ['gradients', parameterBytes(config, gradientType, 'fp32', division)],
    [stateMemory, stateBytes(config, optimizer, shares)],
    ...(scratch.elements === 0 ? [] : [[scratchMemory, scratch.elements * bytesOf(elementType)] as const]),
    ...(shares === 1
      ? []
      : [
          ['received gradients', sharedBytes((parts * matrixCount * bytesOf(gradientType)) / shares)] as const,
          ['gathering', gatheringBytes(config, division)] as const,
        ]),
    ...activationBytes(device, config, { B, T, purpose: 'training', recompute }),
    ...rotationPlan(config),
    [
      'workspace',
      Math.max(
        modelScratch(device, config, { B, T }),
        globalNormScratch(device, { matrixCount, vectorCount }),
        scratch.workspace,
        samples ? decodeScratch(device, config, cache) : 0,
      ),
    ],
    ...(samples ? [['key-value cache', cacheBytes(device, config, cache)] as const] : []),
    ['step block', GPT2_STEP.GPT2_STEP_SIZE * bytesOf('fp32')],
    ...cardScratch(device, cards, absentStep(config, sizes)),
  ]);
}

const absentStep = (config: ModelConfig, { B, T, optimizer, rows = B, recompute }: TrainingSizes): AbsentStep => ({
  accumulates: rows > B,
  enqueue(absent) {
    const model = createModel(absent, config, { B, T, purpose: 'training', recompute });
    const ops = new StepOps(model, { batch: B, sequence: T, accumulation: rows / B, optimizer, gradientClip: 1 });
    // Those of one rank: with several, the optimizer's tensors are parts of these.
    ops.microBatch({ accumulate: false, sums: false, updates: false });
    ops.norm();
    ops.update.enqueue();
  },
});

/** The ops of cards that a step does not call. */
export const uncalledOps = (device: Device, config: ModelConfig, sizes: TrainingSizes): readonly string[] =>
  uncalledCards(device, sizes.cards ?? [], absentStep(config, sizes)).map(({ op }) => op);

/** Bytes that must be free for a run to start. */
export const neededBytes = (device: Device, config: ModelConfig, sizes: TrainingSizes): number =>
  neededFor(device, trainingPlan(device, config, sizes));

/** The largest of `batches` (ascending) that fits. */
function largestBatch(
  device: Device,
  config: ModelConfig,
  { batches, limit, ...sizes }: Omit<TrainingSizes, 'B'> & { batches: readonly number[]; limit: MemoryLimit },
): number | undefined {
  const fits = (B: number, more?: Partial<TrainingSizes>) =>
    neededBytes(device, config, { ...sizes, B, ...more }) <= limit.bytes;
  // The scratch of cards takes a step on the host, so what does not fit without it is left out.
  return batches.findLast((B) => fits(B, { cards: [] }) && fits(B));
}

/** Micro-batches that divide a step of `rows` sequences, ascending. */
export const divisors = (rows: number): number[] =>
  Array.from({ length: rows }, (_, index) => index + 1).filter((batch) => rows % batch === 0);

/**
 * @param asked advised batches divide its `rows`; `hasRecompute`: whether the command has --recompute, default true
 * @throws Gpt2Error with the bytes needed and free, and flags that would fit
 */
export function checkMemory(
  device: Device,
  config: ModelConfig,
  asked: TrainingSizes & { readonly ranks?: number; readonly maxMemory?: number; readonly hasRecompute?: boolean },
): void {
  const { ranks = 1, maxMemory, hasRecompute = true, ...sizes } = asked;
  const { B, T, rows = B, recompute = 'none' } = sizes;
  const limit = memoryLimit(device, maxMemory);
  const needed = neededBytes(device, config, sizes);
  if (needed <= limit.bytes) return;
  // A smaller micro-batch leaves the step unchanged if it accumulates to the same total.
  const keeps = rows === B ? words` --total-batch ${rows * T * ranks}` : '';
  const smaller = divisors(rows).filter((batch) => batch < B);
  const largest = (recompute: Recompute) =>
    largestBatch(device, config, { ...sizes, rows, recompute, batches: smaller, limit });
  const fitting = largest(recompute);
  const kinds = hasRecompute ? recomputeNames.slice(recomputeNames.indexOf(recompute) + 1) : [];
  const stronger = kinds.find((each) => neededBytes(device, config, { ...sizes, recompute: each }) <= limit.bytes);
  const strongest = kinds.at(-1) ?? recompute;
  const both = largest(strongest);
  const advice = [
    ...(stronger === undefined ? [] : [words`--recompute ${stronger}`]),
    ...(fitting === undefined ? [] : [words`--batch ${fitting}${keeps}`]),
    ...((stronger ?? fitting ?? both === undefined) ? [] : [words`--batch ${both}${keeps} --recompute ${strongest}`]),
  ];
  // A step of one micro-batch needs less memory for its gradients.
  const alone = { ...sizes, B: 1, rows: 1, recompute: strongest };
  const refused =
    neededBytes(device, config, alone) <= limit.bytes
      ? words`no batch fits a step of this size: take a smaller --batch and --total-batch,`
      : 'no batch fits: take';
  throw new Gpt2Error(
    words`--batch ${B} with --seq ${T} needs ${gib(needed)} of memory, ${limit.text}; ${
      advice.length > 0
        ? `${advice.join(', or ')} fits`
        : words`${refused} a shorter --seq, a smaller --model, or ${limit.remedy}`
    }`,
  );
}

export interface BatchChoice {
  readonly batch: number;
  readonly recompute: Recompute;
}

/**
 * Chooses --batch auto for a step of `rows` sequences, or of one micro-batch if `rows` is undefined: then the largest that still
 * gains speed. Opens the device for a moment.
 * @param sizes without `recompute`, the one that recomputes least and fits is chosen
 * @throws Gpt2Error if not one sequence fits
 */
export function chooseBatch(
  device: DeviceOptions,
  config: ModelConfig,
  { maxMemory, ...sizes }: Omit<TrainingSizes, 'B' | 'parts'> & { readonly maxMemory: number | undefined },
): BatchChoice {
  const { T, rows, recompute } = sizes;
  using opened = Device.open(device);
  const most = enoughRows(opened, T);
  const batches =
    rows === undefined
      ? Array.from({ length: most }, (_, index) => index + 1)
      : divisors(rows).filter((batch) => batch <= most);
  const limit = memoryLimit(opened, maxMemory);
  for (const each of recompute === undefined ? recomputeNames : [recompute]) {
    const batch = largestBatch(opened, config, { ...sizes, recompute: each, batches, limit });
    if (batch !== undefined) return { batch, recompute: each };
  }
  throw new Gpt2Error(
    words`--batch auto: not one sequence of --seq ${T} fits, ${limit.text}; take a shorter --seq or a smaller --model`,
  );
}
