// Computes the outlook of a run: its steps, tokens, epochs, estimated time and checkpoint size. Warns of unusual values.
import { gpt2Error, words } from '../../base/errors.ts';
import { askedSteps } from '../../options/complete-options.ts';
import type { ResolvedOptions } from '../../options/table.ts';
import { formatBytes, formatCount, formatDuration } from '../../report/format-text.ts';

export interface Outlook {
  /** The step at which the run starts: 0, or the checkpoint's step for a resumed run. */
  readonly from: number;
  /** Number of steps after `from`, up to --stop-after. */
  readonly steps: number;
  /** Number of tokens on which these steps train, over all ranks. */
  readonly tokens: number;
  /** Passes over the training split in these steps; 0 for a program's batches, and with --overfit-batch. */
  readonly epochs: number;
  /** `stepSeconds`: time of one step. `seconds`: time of all steps, all validations and the last save. Undefined if unknown. */
  readonly stepSeconds: number | undefined;
  readonly seconds: number | undefined;
  readonly checkpointBytes: number;
  /** Whether the times are rough: they come from a GPU's data sheet, or leave out the ranks' communication or --kernel's kernels. */
  readonly isAbout?: boolean;
}

/** Number of steps of a run; default: one epoch. @throws Gpt2Error if the data are less than one step, or the warmup is too long */
export function stepsOf(options: ResolvedOptions, trainingTokens: number): number {
  const { data, totalBatch, warmup = 0, tokens } = options;
  const steps = askedSteps(options, totalBatch) ?? Math.floor(trainingTokens / totalBatch);
  if (steps < 1) {
    throw gpt2Error`${data} has ${trainingTokens} training tokens, fewer than one step of ${totalBatch}; give --steps or a smaller --total-batch`;
  }
  if (warmup > steps) {
    const of = tokens === undefined ? `one epoch of ${data}` : words`--tokens ${tokens}`;
    throw gpt2Error`--warmup ${warmup} is over the ${steps} steps of ${of}; take a shorter --warmup or give --steps`;
  }
  return steps;
}

/** Counts the steps from `from` to `last`, both included, at which work is due: every multiple of `every`, and `last`. */
export function timesDue(every: number, from: number, last: number): number {
  if (every <= 0 || from > last) return 0;
  return Math.floor(last / every) - Math.floor((from - 1) / every) + (last % every === 0 ? 0 : 1);
}

/** Estimates the seconds of a save of `bytes` bytes: 1.49 GB took 4 s on an H200's host (2026-11-26), mostly for sha256. */
export const saveSeconds = (bytes: number): number => bytes / 400e6;

/** The outlook of a run from the step `run.from` to the run's last step, or to --stop-after. */
export function outlookOf(
  options: ResolvedOptions,
  run: Pick<Outlook, 'steps' | 'stepSeconds' | 'checkpointBytes'> & {
    readonly trainingTokens: number;
    readonly validationTokens: number;
    readonly from: number;
  },
): Outlook {
  const { totalBatch, valEvery, ranks, overfitBatch, stopAfter = run.steps } = options;
  const { from, trainingTokens, validationTokens, stepSeconds, checkpointBytes } = run;
  const last = Math.min(run.steps, stopAfter);
  const steps = Math.max(0, last - from);
  // A validation runs only forward passes; a forward pass takes a third of the time of forward and backward together.
  const validation = (timesDue(valEvery, from, last) * validationTokens) / (3 * ranks);
  const seconds = stepSeconds && (steps + validation / totalBatch) * stepSeconds + saveSeconds(checkpointBytes);
  const tokens = steps * totalBatch;
  const epochs = overfitBatch ? 0 : tokens / trainingTokens;
  return { from, steps, tokens, epochs, stepSeconds, seconds, checkpointBytes };
}

/** Formats an outlook: "400 steps, 102,400 tokens, 0.335 epochs; 1m20s, until 14:32; checkpoints of 347 MiB" */
export function outlookText(outlook: Outlook, now = new Date()): string {
  const { from, steps, tokens, epochs, seconds, checkpointBytes, isAbout = false } = outlook;
  const count = steps === 1 ? '1 step' : `${formatCount(steps)} steps`;
  const read = epochs === 0 ? '' : `, ${epochsText(epochs)}`;
  const work = `${count}${from > 0 ? ` from step ${formatCount(from)}` : ''}, ${formatCount(tokens)} tokens${read}`;
  const time =
    seconds === undefined
      ? 'time unknown'
      : `${isAbout ? 'about ' : ''}${formatDuration(seconds)}${isAbout ? '' : `, until ${clock(now, seconds)}`}`;
  return `${work}; ${time}; checkpoints of ${formatBytes(checkpointBytes)}`;
}

/** Formats a number of epochs with three digits: "0.335 epochs", "2,280 epochs". */
export function epochsText(epochs: number): string {
  const passes = Number(epochs.toPrecision(3));
  return `${formatCount(passes)} ${passes === 1 ? 'epoch' : 'epochs'}`;
}

/** Formats the local time `seconds` after `now`: "14:32" on the day of `now`, "2026-11-28 14:32" on another day. */
function clock(now: Date, seconds: number): string {
  const end = new Date(now.getTime() + seconds * 1000);
  const two = (value: number) => String(value).padStart(2, '0');
  const time = `${two(end.getHours())}:${two(end.getMinutes())}`;
  const day = `${end.getFullYear()}-${two(end.getMonth() + 1)}-${two(end.getDate())}`;
  return end.toDateString() === now.toDateString() ? time : `${day} ${time}`;
}

const [mostEpochs, mostSeconds, longestStep] = [4, 24 * 3600, 60];

/** Warns of many epochs, a run of over a day, or a step of over a minute, which the user may not have intended. */
export function outlookWarnings({ epochs, seconds = 0, stepSeconds = 0 }: Outlook): string[] {
  const [run, step] = [formatDuration(seconds), formatDuration(stepSeconds)];
  const warnings: [boolean, string][] = [
    [
      epochs > mostEpochs,
      words`${epochsText(epochs)}: above ${mostEpochs} a model learns less that is new; give fewer --steps, or more data`,
    ],
    [seconds > mostSeconds, words`${run} is over ${mostSeconds / 3600} hours; give fewer --steps or a smaller --model`],
    [stepSeconds > longestStep, words`a step takes ${step}, over ${longestStep} s; give a smaller --total-batch`],
  ];
  return warnings.flatMap(([isDue, text]) => (isDue ? [`warning: ${text}`] : []));
}
