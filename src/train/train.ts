// A training run from options to the last checkpoint: opens data, device and run folder, then the loop. Each step may
// log, in this order: validation, sample, checkpoint, training loss. What a step computes is in trainer.ts.
import { startPosition } from '../batches/order.ts';
import { Gpt2Error, NativeError } from '../errors.ts';
import { meanLoss } from '../evaluate/mean-loss.ts';
import type { RunEvent } from '../runs/schema.ts';
import { checkpointRun, doneEvent, pruneRun, sampleText } from './milestones.ts';
import type { TrainOptions } from './option-table.ts';
import { openRun, type Run, type RunDescription } from './run.ts';
import { learningRateAt } from './schedule.ts';
import { Throughput } from './throughput.ts';
import type { BegunStep } from './trainer.ts';

export interface TrainHooks {
  /** Aborting it ends the run after the step in progress, saved; its reason is the exit code (130 or 143). */
  readonly signal?: AbortSignal;
  /** Told once, before step 0. */
  readonly onStart?: (run: RunDescription) => void;
  /** One-line remarks that are not events: a default taken, a damaged checkpoint skipped, a disk that is full. */
  readonly onNotice?: (text: string) => void;
  /** Told each event after it was written to the run log, with the line itself and the seconds left once known. */
  readonly onEvent?: (event: RunEvent, context: { json: string; remaining: number | undefined }) => void;
}

export interface TrainResult {
  /** The run folder. */
  readonly out: string;
  /** Updates done in all. */
  readonly steps: number;
}

/** A run that was asked to stop. Its message says what was saved. */
export class StoppedError extends Gpt2Error {
  override readonly exitCode: number;
  override readonly name = 'StoppedError';

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Trains as the options say; see option-table.ts.
 * @throws UsageError for options that cannot be; StoppedError after `signal`; Gpt2Error for everything else a user can mend
 */
export async function train(options: TrainOptions, hooks: TrainHooks = {}): Promise<TrainResult> {
  const run = await openRun(options, hooks.onNotice ?? (() => {}));
  try {
    if (run.startStep >= run.steps) {
      hooks.onNotice?.(`the run in ${run.out} is finished: ${run.steps} of ${run.steps} steps are done`);
      return { out: run.out, steps: run.steps };
    }
    const result = await loop(run, hooks);
    run.log.settle();
    return result;
  } finally {
    run.close();
  }
}

async function loop(run: Run, { signal, onStart, onNotice, onEvent }: TrainHooks): Promise<TrainResult> {
  const { options, steps, trainer, loader, validation } = run;
  const throughput = new Throughput(options.totalBatch);
  let step = run.startStep;
  let logFailed = false;
  const log = (event: RunEvent) => {
    const json = run.log.write(event);
    const { failure } = run.log;
    if (failure && !logFailed) onNotice?.(`${failure.message}; they are kept until they can be, and training goes on`);
    if (!failure && logFailed) onNotice?.('the log can be written again, and has every line');
    logFailed = failure !== undefined;
    onEvent?.(event, { json, remaining: throughput.remaining(run.lastStep - step) });
  };
  onStart?.(run.description);
  log(run.runEvent);
  if (run.resumed) log({ event: 'checkpoint', step, path: run.resumed.path });
  const started = performance.now();
  const firstBatch = options.overfitBatch ? copyBatches(run) : undefined;

  // On a GPU a step's result is read after the next was issued, so that the device never waits for the host.
  let underWay: { index: number; lr: number; begin: number; begun: BegunStep } | undefined;
  let lastEnd = started;
  const settle = async () => {
    if (!underWay) return;
    const { index, lr, begin, begun } = underWay;
    underWay = undefined;
    const { loss, norm } = await begun.finished();
    const now = performance.now();
    const ms = now - Math.max(begin, lastEnd);
    lastEnd = now;
    log({ event: 'train', step: index, loss, norm, lr, ...throughput.add(ms), ms });
  };

  /** Trouble with the disk is told and is no reason to stop training, unless the run ends with this step. */
  const save = (ends: boolean) => {
    try {
      log({ event: 'checkpoint', step, path: checkpointRun(run, step) });
    } catch (error) {
      if (ends || !isOfDisk(error)) throw error;
      onNotice?.(`step ${step} was not saved, training goes on: ${error.message}`);
      return;
    }
    try {
      pruneRun(run);
    } catch (error) {
      if (!isOfDisk(error)) throw error;
      onNotice?.(`${error.message}; training goes on`);
    }
  };

  for (; ; step++) {
    const isLast = step === steps;
    const isResumedHere = run.resumed !== undefined && step === run.startStep;
    const isStopping = () => signal?.aborted === true;
    const isDue = (every: number) => every > 0 && step % every === 0;
    const validates = validation !== undefined && (isLast || isDue(options.valEvery));
    const samples = options.sampleEvery > 0 && step > 0 && (isLast || isDue(options.sampleEvery));
    const saves = isLast || step === run.lastStep || (step > 0 && isDue(options.saveEvery));
    if (validates || samples || saves || isStopping()) await settle();
    if (!isResumedHere) {
      if (validates) {
        validation.loader.seek(startPosition);
        log({ event: 'val', step, loss: await meanLoss(run.model, validation, () => validation.loader.next()) });
      }
      if (samples) log({ event: 'sample', step, text: await sampleText(run, step) });
      const stops = isStopping();
      const ends = stops || isLast || step === run.lastStep;
      if (saves || stops) save(ends);
      if (stops && !isLast) throw stopped(run, step, signal);
    }
    if (isLast || step === run.lastStep) break;

    const begin = performance.now();
    const lr = learningRateAt({ ...options, steps }, step);
    const begun = await trainer.begin(step, lr, firstBatch ?? (() => loader.next()));
    await settle();
    underWay = { index: step, lr, begin, begun };
    if (!run.model.device.captures) await settle();
  }

  if (step === steps) log(doneEvent(run, (performance.now() - started) / 1000));
  return { out: run.out, steps: step };
}

/** A device that fails is another matter: what it computes next would fail too. */
const isOfDisk = (error: unknown): error is Gpt2Error => error instanceof Gpt2Error && !(error instanceof NativeError);

function stopped(run: Run, step: number, signal: AbortSignal | undefined): StoppedError {
  const exitCode = typeof signal?.reason === 'number' ? signal.reason : 130;
  return new StoppedError(
    `stopped after ${step} of ${run.steps} steps and saved; continue with --out ${run.out} --resume`,
    exitCode,
  );
}

/** The micro-batches of the first step, again and again. */
function copyBatches({ options, loader }: Run): () => { inputs: Int32Array; targets: Int32Array } {
  loader.seek(startPosition);
  const batches = Array.from({ length: options.accumulation }, () => {
    const { inputs, targets } = loader.next();
    return { inputs: inputs.slice(), targets: targets.slice() };
  });
  let next = 0;
  return () => batches[next++ % batches.length]!;
}
