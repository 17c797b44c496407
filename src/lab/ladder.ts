// The ladder of the CUDA course (kernels/course): times GPT-2's training step with several sets of kernels. The first set is all naive.
// Each next set has the kernels of one more rung of the course. The last set is the library's kernels.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { packageRoot } from '../base/package-root.ts';
import { presetConfig } from '../model/config.ts';
import { Device, type Dtype } from '../native/device.ts';
import { type DeviceChoice, selectDevice } from '../native/select-device.ts';
import { cardFiles, type LoadedCard, loadCards } from '../ops/kernels/kernel-card.ts';
import { completeOptions, freezeOptions } from '../options/complete-options.ts';
import type { TrainOptions } from '../options/table.ts';
import { measureTraining } from './bench/bench.ts';

const course = join(packageRoot, 'kernels/course');

/** The course's chapters about ops, the easiest first. Each has rungs: kernels of one op, from naive to fast. */
export const chapters = [
  ...['residual', 'gelu', 'layernorm', 'cross-entropy', 'optimizer'],
  ...['matmul', 'attention', 'embedding'],
] as const;

export interface LadderStep {
  /** The rung added in this step, as CHAPTER/RUNG; or the name of a set of kernels: "all naive", "best rungs", "the library". */
  readonly name: string;
  readonly dtype: Dtype;
  readonly cards: readonly LoadedCard[];
}

export interface MeasuredStep {
  readonly name: string;
  readonly dtype: Dtype;
  /** Median milliseconds of a training step. */
  readonly ms: number;
  readonly tokensPerSecond: number;
}

/**
 * The sets of kernels to time. In fp32: all naive, then one more rung at a time, then the library. If `dtypes` has bf16, two more sets
 * follow in bf16: the best rungs, and the library.
 * @param climbed chapters whose faster rungs are used; the other chapters stay naive. Default: all
 * @throws UsageError for an unknown chapter
 */
export async function ladderOf(dtypes: readonly Dtype[], climbed: readonly string[] = chapters): Promise<LadderStep[]> {
  const unknown = climbed.find((name) => !chapters.includes(name as never));
  if (unknown !== undefined) {
    throw UsageError.takes('--chapter', `one of ${chapters.join(', ')}`, unknown);
  }
  const rungs = (await courseRungs()).filter(({ chapter, index }) => index === 0 || climbed.includes(chapter));
  const takes = (dtype: Dtype) => (card: LoadedCard) => (card.dtypes ?? ['fp32']).includes(dtype);
  const byOp = (cards: readonly LoadedCard[]) => new Map(cards.map((card) => [card.op, card]));
  const naive = rungs.filter(({ index }) => index === 0).flatMap(({ cards }) => cards.filter(takes('fp32')));
  const inBf16 = byOp(rungs.flatMap(({ cards }) => cards.filter(takes('bf16'))));
  const used = byOp(naive);
  const steps: LadderStep[] = [{ name: 'all naive', dtype: 'fp32', cards: naive }];
  for (const { name, index, cards } of rungs) {
    const inFp32 = cards.filter(takes('fp32'));
    if (index === 0 || inFp32.length === 0) continue;
    for (const card of inFp32) used.set(card.op, card);
    steps.push({ name, dtype: 'fp32', cards: [...used.values()] });
  }
  steps.push({ name: 'the library', dtype: 'fp32', cards: [] });
  if (!dtypes.includes('bf16')) return steps;
  const best: LadderStep = { name: 'best rungs', dtype: 'bf16', cards: [...inBf16.values()] };
  return [...steps, best, { name: 'the library', dtype: 'bf16', cards: [] }];
}

/** Loads the cards of the course's rungs, chapter by chapter. `index`: the rung's number in its chapter; the naive rung is 0. */
export async function courseRungs() {
  const rungs = chapters.flatMap((chapter) => rungsOf(chapter).map((rung, index) => ({ chapter, rung, index })));
  return Promise.all(
    rungs.map(async ({ chapter, rung, index }) => ({
      ...{ chapter, index, name: `${chapter}/${rung}` },
      cards: await loadCards(join(course, chapter, rung)),
    })),
  );
}

/** Folders of a chapter's rungs that have a card, sorted by the number at the start of the name. */
const rungsOf = (chapter: string): string[] =>
  readdirSync(join(course, chapter))
    .filter((name) => cardFiles.some((file) => existsSync(join(course, chapter, name, file))))
    .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));

export interface LadderOptions {
  /** Only device, model (a preset), batch (default 4) and sequence have an effect. Other defaults are as in `train`. */
  readonly training: Omit<TrainOptions, 'batch'> & { readonly batch?: number };
  /** Number of measured training steps for each rung. */
  readonly steps: number;
  readonly chapters?: readonly string[];
  /** Called before the first measurement, with a line about model, batch and device. */
  readonly onStart: (what: string) => void;
}

/**
 * Trains on random tokens with each set of kernels of `ladderOf`, and yields the median time of a step.
 * @throws Gpt2Error where `bench` throws it; UsageError if the course has no such chapter
 */
export async function* climb(options: LadderOptions): AsyncGenerator<MeasuredStep> {
  const { training, steps, chapters: climbed, onStart } = options;
  const device = selectDevice(training.device ?? 'auto');
  const completed = completeOptions(training, device.kind);
  const { model, batch, sequence } = freezeOptions({ ...completed, batch: training.batch ?? 4 });
  const config = presetConfig(model)!;
  const { dtypes, device: name, codePath } = descriptionOf(device);
  onStart(`${model}, batch ${batch} x ${sequence}, random tokens, on ${name} (${codePath})`);
  for (const { name, dtype, cards } of await ladderOf(dtypes, climbed)) {
    const { step } = await measureTraining({
      device: { ...device, dtype },
      ...{ config, batch, sequence, accumulation: 1, cards, steps, warmup: 0, ops: false },
    });
    yield { name, dtype, ms: step.ms.median, tokensPerSecond: step.tokensPerSecond.median };
  }
}

function descriptionOf(choice: DeviceChoice): Device['description'] {
  using device = Device.open(choice);
  return device.description;
}
