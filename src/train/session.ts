// The loop over the steps of an open run. Each step may log, in this order: validation, HellaSwag, sample, training loss; a
// checkpoint when it is on the disk, which may be some steps later.
import type { Batch } from '../batches/loader.ts';
import { type Position, startPosition } from '../batches/order.ts';
import { Gpt2Error, InterruptedError, type NativeError } from '../errors.ts';
import type { Place } from '../ranks/place.ts';
import { logPath } from '../runs/paths.ts';
import { eventsAt, eventsIfReadable } from '../runs/reader.ts';
import type { RunEvent } from '../runs/schema.ts';
import { ChangedShardError } from '../shards/shard.ts';
import { doneEvent, hellaswagEvent, sampleText, validationLoss } from './milestones.ts';
import type { Run, RunDescription } from './run.ts';
import { Saving, type SavingHooks } from './saving.ts';
import { learningRateAt } from './schedule.ts';
import { mostSkippedInARow, SpikeWatch, thoseThatCount } from './spikes.ts';
import { Throughput } from './throughput.ts';
import type { BegunStep } from './trainer.ts';
import { stopAtBadStep } from './trouble.ts';

export interface TrainHooks {
  /**
   * This process's place among the ranks of a job; default: it trains alone. A job on GPUs that fails ends this process within
   * seconds, whatever else it does: its GPU may never come back.
   */
  readonly place?: Place;
  /** Aborting it saves and ends the run after the step in progress; its reason is the exit code (128 + the signal's number). */
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

/**
 * A run that was asked to stop. Its message says what was saved.
 * @example if (error instanceof StoppedError) process.exitCode = error.exitCode; // 130 after Ctrl-C
 */
export class StoppedError extends Gpt2Error {
  override readonly exitCode: number;
  override readonly name = 'StoppedError';

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** A step that was issued. */
interface UnderWay {
  readonly step: number;
  readonly lr: number;
  /** Of its first micro-batch. */
  readonly position: Position;
  readonly begin: number;
  readonly begun: BegunStep;
}

/** The loop over steps, and what it keeps between them. */
export class Session {
  readonly #run: Run;
  readonly #hooks: TrainHooks;
  readonly #saving: Saving;
  readonly #throughput: Throughput;
  #spikes: SpikeWatch | undefined;
  /** For --overfit-batch. */
  readonly #firstBatch: (() => Batch) | undefined;
  #step: number;
  /** The position of that step's first micro-batch. */
  #position: Position;
  #underWay: UnderWay | undefined;
  /** Whether any of several ranks was asked to stop, as of the last step that is settled. */
  #ranksStop = false;
  #lastEnd = performance.now();
  #logFailed = false;
  #skipped = 0;
  #skippedInARow = 0;
  #saved: string | undefined;

  constructor(run: Run, hooks: TrainHooks) {
    const { options, startStep, resumed } = run;
    this.#run = run;
    this.#hooks = hooks;
    this.#step = startStep;
    this.#position = run.loader.position;
    this.#saved = resumed?.path;
    this.#throughput = new Throughput(options.totalBatch);
    this.#saving = new Saving(run, this.#savingHooks);
    if (options.overfitBatch) this.#firstBatch = copyBatches(run);
  }

  get #savingHooks(): SavingHooks {
    return { log: (event) => this.#log(event), notice: (text) => this.#hooks.onNotice?.(text) };
  }

  async run(): Promise<TrainResult> {
    const { out, options, steps, startStep, ranks, resumed } = this.#run;
    const { onStart } = this.#hooks;
    const told = resumed ? kindsAt(out, startStep) : [];
    const toldBefore = new Set((await ranks?.fromRoot(told)) ?? told);
    if (options.skipSpikes !== undefined) await this.#watchSpikes(options.skipSpikes);
    onStart?.(this.#run.description);
    this.#log(this.#run.runEvent);
    if (resumed) this.#log({ event: 'checkpoint', step: startStep, path: resumed.path });
    const started = performance.now();

    try {
      await this.#steps(toldBefore);
    } catch (error) {
      throw error instanceof ChangedShardError ? await this.#stopAtChange(error) : error;
    }

    if (resumed && this.#step === startStep) this.#saving.tidy();
    const seconds = (performance.now() - started) / 1000;
    if (this.#step === steps)
      this.#log(await doneEvent(this.#run, { seconds, skipped: this.#spikes && this.#skipped }));
    else this.#hooks.onNotice?.(`${this.#saidToBeSaved}, as --stop-after says; continue with --out ${out} --resume`);
    if (await this.#saving.isLost()) await this.#saving.saveNow(this.#step, this.#position);
    return { out, steps: this.#step };
  }

  /** @param toldBefore the kinds of events that a resumed run's log already has at its first step */
  async #steps(toldBefore: ReadonlySet<RunEvent['event']>): Promise<void> {
    const { options, steps, lastStep, startStep, trainer, loader, ranks } = this.#run;
    const { validation, hellaswag, cache, resumed } = this.#run;
    const { signal } = this.#hooks;
    for (; ; this.#step++) {
      const step = this.#step;
      this.#position = loader.position;
      const isLast = step === steps;
      const isResumedHere = resumed !== undefined && step === startStep;
      // Ranks stop after the same step: what one was asked, all find in the step's result.
      const isAsked = () => (ranks ? this.#ranksStop : signal?.aborted === true);
      const isStopping = () => isAsked() || this.#skippedInARow >= mostSkippedInARow;
      const isDue = (every: number, kind: RunEvent['event']) =>
        every > 0 && (isLast || step % every === 0) && !(isResumedHere && toldBefore.has(kind));
      const milestones: (() => Promise<void>)[] = [];
      if (validation && isDue(options.valEvery, 'val')) {
        milestones.push(async () =>
          this.#log({ event: 'val', step, loss: await validationLoss(this.#run, validation, signal) }),
        );
      }
      if (hellaswag && step > 0 && isDue(options.hellaswagEvery, 'hellaswag')) {
        milestones.push(async () => this.#log(await hellaswagEvent(this.#run, hellaswag, step, signal)));
      }
      if (cache && step > 0 && isDue(options.sampleEvery, 'sample')) {
        milestones.push(async () => {
          if (!ranks || ranks.isRoot) {
            // Other ranks wait for it: then it is finished.
            const text = await sampleText(cache, this.#run, step, ranks ? undefined : signal);
            this.#log({ event: 'sample', step, text });
          }
          await ranks?.barrier();
        });
      }
      const saves = !isResumedHere && (isLast || step === lastStep || (step > 0 && step % options.saveEvery === 0));
      if (milestones.length > 0 || saves || isStopping()) {
        await this.#settle();
        trainer.update();
        ranks?.pause();
      }
      // What a run that is asked to stop leaves out here comes when it is resumed.
      const isWhole = await this.#reach(milestones, isStopping);
      const stops = isStopping();
      if (!isResumedHere) {
        if (stops || isLast || step === lastStep) await this.#saving.saveNow(step, loader.position);
        else if (saves) await this.#saving.save(step, loader.position);
      }
      if (stops && !(isLast && isWhole)) throw this.#stopped();
      if (isLast || step === lastStep) return;
      await this.#begin(step);
    }
  }

  /**
   * Saves what was trained before the shards changed, and returns the error that ends the run. With several ranks it saves
   * nothing: the others are in a step that waits for this one. The last checkpoint remains.
   */
  async #stopAtChange(error: ChangedShardError): Promise<Gpt2Error> {
    const { ranks, resumed, startStep, trainer } = this.#run;
    if (ranks) return error;
    await this.#settle();
    trainer.update();
    let what = this.#saidToBeSaved;
    try {
      if (!resumed || this.#step > startStep) await this.#saving.saveNow(this.#step, this.#position);
    } catch (failure) {
      if (!(failure instanceof Gpt2Error)) throw failure;
      what = failure.message;
    }
    return new Gpt2Error(`${error.message}; ${what}`, { cause: error });
  }

  /** Of several ranks all go by what rank 0's log has, so that they skip the same updates. */
  async #watchSpikes(z: number): Promise<void> {
    const { resumed, ranks } = this.#run;
    const steps = resumed && (!ranks || ranks.isRoot) ? this.#trainedSteps() : [];
    const own = { skipped: steps.filter(({ skipped }) => skipped).length, steps: thoseThatCount(steps) };
    const before = (await ranks?.fromRoot(own)) ?? own;
    this.#spikes = new SpikeWatch(z, before.steps);
    this.#skipped = before.skipped;
  }

  /** The log's train events of earlier steps, skipped ones included. */
  #trainedSteps() {
    const { out, startStep } = this.#run;
    const trained = eventsIfReadable(out).flatMap((event) => (event.event === 'train' ? [event] : []));
    const lost = startStep - new Set(trained.map(({ step }) => step)).size;
    if (lost > 0) {
      this.#hooks.onNotice?.(
        `${logPath(out)} is damaged or truncated; --skip-spikes continues without the losses and norms of ${lost} of ${startStep} steps`,
      );
    }
    return trained;
  }

  /** Goes through what is due besides training; false if the run is to stop before all of it was done. */
  async #reach(milestones: readonly (() => Promise<void>)[], isStopping: () => boolean): Promise<boolean> {
    for (const milestone of milestones) {
      if (isStopping()) return false;
      try {
        await milestone();
      } catch (error) {
        if (!(error instanceof InterruptedError)) throw error;
        this.#ranksStop = true;
        return false;
      }
    }
    return true;
  }

  /** Issues a step. On a GPU a step's result is read after the next was issued, so that the device never waits for the host. */
  async #begin(step: number): Promise<void> {
    const { options, steps, startStep, trainer, loader, model, ranks } = this.#run;
    const begin = performance.now();
    ranks?.begin(step);
    const lr = learningRateAt({ ...options, steps }, step);
    const position = this.#position;
    const limits = this.#spikes ? this.#spikes.limitsAt(step) : { afterUpdate: step > startStep };
    const stops = this.#hooks.signal?.aborted === true;
    const begun = await trainer.begin(step, lr, this.#firstBatch ?? (() => loader.next()), limits, stops);
    await this.#settle();
    this.#underWay = { step, lr, position, begin, begun };
    if (!model.device.captures) await this.#settle();
  }

  /** Waits for the step under way and logs it. @throws Gpt2Error if its numbers end the run */
  async #settle(): Promise<void> {
    if (!this.#underWay) return;
    const { step, lr, position, begin, begun } = this.#underWay;
    this.#underWay = undefined;
    const { ranks } = this.#run;
    const result = await begun.finished();
    // Of ranks that have parted it means nothing.
    ranks?.check();
    const { loss, norm, updated } = result;
    this.#ranksStop = result.stops;
    const now = performance.now();
    const ms = now - Math.max(begin, this.#lastEnd);
    this.#lastEnd = now;
    ranks?.done(ms);
    if (!updated && !this.#spikes) {
      const { loader } = this.#run;
      loader.seek(position);
      const nextBatch = this.#firstBatch ?? (() => loader.next());
      const bad = { step, result, position, nextBatch };
      throw await stopAtBadStep(this.#run, bad, this.#saving, this.#savingHooks);
    }
    this.#spikes?.add({ step, loss, norm });
    this.#skippedInARow = updated ? 0 : this.#skippedInARow + 1;
    if (!updated) this.#skipped++;
    const rate = this.#throughput.add(ms);
    this.#log({ event: 'train', step, loss, norm, lr, ...rate, ms, ...(updated ? {} : { skipped: true }) });
  }

  #log(event: RunEvent): void {
    const { log, scalars, lastStep } = this.#run;
    if (event.event === 'checkpoint') this.#saved = event.path;
    const json = log.write(event);
    scalars?.add(event);
    const { failure } = log;
    const notice = (text: string) => this.#hooks.onNotice?.(text);
    if (failure && !this.#logFailed)
      notice(`${failure.message}; they are kept until they can be, and training goes on`);
    if (!failure && this.#logFailed) notice('the log can be written again, and has every line');
    this.#logFailed = failure !== undefined;
    this.#hooks.onEvent?.(event, { json, remaining: this.#throughput.remaining(lastStep - this.#step) });
  }

  get #saidToBeSaved(): string {
    return `stopped after ${this.#step} of ${this.#run.steps} steps and saved`;
  }

  #stopped(): Gpt2Error {
    const { out } = this.#run;
    const { signal } = this.#hooks;
    const done = this.#saidToBeSaved;
    if (signal?.aborted !== true && !this.#ranksStop) {
      return new Gpt2Error(
        `${done}: the last ${this.#skippedInARow} updates were all skipped as spikes; go on with --out ${out} --resume and a smaller --lr or a larger --skip-spikes`,
      );
    }
    const exitCode = typeof signal?.reason === 'number' ? signal.reason : 130;
    return new StoppedError(`${done}; continue with --out ${out} --resume`, exitCode);
  }

  /** What to say of a device that failed under the run. */
  lost(error: NativeError): Gpt2Error {
    const from = this.#saved
      ? `${this.#saved} is whole: continue with --out ${this.#run.out} --resume`
      : 'nothing was saved';
    return new Gpt2Error(`the device failed in step ${this.#step}: ${error.message}; ${from}`, { cause: error });
  }

  /** Waits for what is being written. */
  close(): Promise<void> {
    return this.#saving.close();
  }
}

/** What the log of a run tells at a step. */
export const kindsAt = (out: string, step: number) => eventsAt(out, step).map(({ event }) => event);

/** The micro-batches of the first step, again and again. */
function copyBatches({ options, loader }: Run): () => Batch {
  loader.seek(startPosition);
  const batches = Array.from({ length: options.accumulation }, () => {
    const { inputs, targets } = loader.next();
    return { inputs: inputs.slice(), targets: targets.slice() };
  });
  let next = 0;
  return () => batches[next++ % batches.length]!;
}
