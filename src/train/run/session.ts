// Runs the loop over the steps of an open run. Each step may log, in this order: validation, HellaSwag, sample, training loss. A
// checkpoint is logged once it is on the disk, perhaps some steps later.
import { availableParallelism } from 'node:os';
import { inspect } from 'node:util';
import { expected, Gpt2Error, gpt2Error, InterruptedError, NativeError, words } from '../../base/errors.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { Position } from '../../data/batches/order.ts';
import { ChangedShardError } from '../../data/shards/shard.ts';
import { isRoot } from '../../ranks/ranks.ts';
import { logPath } from '../../runs/paths.ts';
import { eventsAt, eventsIfReadable } from '../../runs/reader.ts';
import type { RunEvent } from '../../runs/schema.ts';
import type { BegunStep } from '../step/trainer.ts';
import { stopAtBadStep } from './bad-step.ts';
import { repeatFirstStep } from './data.ts';
import { type Events, eventsOf } from './events.ts';
import { type SessionHooks, StoppedError, type TrainResult } from './hooks.ts';
import { milestonesAt } from './milestones.ts';
import { continuationOf, type Run, smallerRate } from './run.ts';
import { Saving } from './saving.ts';
import { learningRateAt } from './schedule.ts';
import { mostSkippedInARow, openSpikeWatch, type SpikeWatch } from './spikes.ts';
import { type Throughput, throughputOf, watchStep } from './throughput.ts';
import { weightsHash } from './weights-hash.ts';

/** A step that was enqueued and whose result has not been read. */
interface EnqueuedStep {
  readonly step: number;
  readonly lr: number;
  /** Position of the step's first micro-batch in the data. */
  readonly position: Position;
  readonly enqueuedAt: number;
  readonly begun: BegunStep;
}

export class Session {
  readonly #run: Run;
  readonly #hooks: SessionHooks;
  readonly #events: Events;
  readonly #saving: Saving;
  readonly #throughput: Throughput;
  readonly #nextBatch: () => Batch;
  #spikes: SpikeWatch | undefined;
  #step: number;
  /** The position of the first micro-batch of the next step. */
  #position: Position;
  #enqueued: EnqueuedStep | undefined;
  /** With several ranks: whether any rank was asked to stop, as of the last step whose result was read. */
  #ranksStop = false;
  /** With several ranks: whether rank 0 has requested a save since the last save. */
  #ranksSave = false;
  #lastEnd = performance.now();
  #largestRate = 0;
  /** An error of the program's schedule, optimizer or batches; the run is saved before the error ends it. */
  #refusal: unknown;

  constructor(run: Run, hooks: SessionHooks) {
    const { options, data, span, trained } = run;
    this.#run = run;
    this.#hooks = hooks;
    this.#step = span.startStep;
    this.#position = data.loader.position;
    const { library, threads } = trained.model.device.description;
    const every = typeof options.saveEvery === 'number' ? options.saveEvery : 0;
    // If training uses all cores of a CPU, the thread that writes a save takes one core from training.
    const slowdown = library === 'cpu' && threads * options.ranks >= availableParallelism() ? 1 / threads : 0;
    this.#throughput = throughputOf(options.totalBatch, span, trained.writer.copyBytes, { every, slowdown });
    this.#events = eventsOf(run.folder, hooks, this.#throughput);
    this.#saving = new Saving(run, this.#events, hooks.canStop ? hooks.signal : undefined);
    this.#nextBatch = options.overfitBatch
      ? repeatFirstStep(data.loader, options.accumulation)
      : () => data.loader.next();
  }

  async run(): Promise<TrainResult> {
    const { options, span, ranks, folder, description, runEvent } = this.#run;
    const { steps, startStep } = span;
    const { resumed } = folder;
    const hasLog = resumed !== undefined && isRoot(ranks);
    const events = hasLog ? eventsIfReadable(folder.out) : [];
    const known = eventsAt(folder.out, startStep, events).map(({ event }) => event);
    const logged = new Set((await ranks?.fromRoot(known)) ?? known);
    const trained = events.flatMap((event) => (event.event === 'train' ? [event] : []));
    const lost = startStep - new Set(trained.map(({ step }) => step)).size;
    if (hasLog && lost > 0) {
      const path = logPath(folder.out);
      const text = `${path} is damaged or truncated: it lacks ${lost} of the ${startStep} steps`;
      this.#events.notice(words`${text}, and curves and --skip-spikes continue without them`);
    }
    if (options.skipSpikes !== undefined) {
      this.#spikes = await openSpikeWatch(ranks, options.skipSpikes, trained);
    }
    this.#hooks.onStart?.(description);
    const { command } = this.#hooks;
    this.#events.log(command ? { ...runEvent, command: [...command] } : runEvent);
    if (resumed) this.#events.log({ event: 'checkpoint', step: startStep, path: resumed.path });
    const started = performance.now();

    try {
      await this.#steps(logged);
    } catch (error) {
      const isSaved = error instanceof ChangedShardError || (error !== undefined && error === this.#refusal);
      throw isSaved ? await this.#stopAtChange(error as Error) : error;
    }

    const isIdle = resumed && this.#step === startStep;
    if (isIdle) this.#saving.tidy();
    if (this.#run.parts.schedule && this.#step > startStep && this.#largestRate === 0)
      this.#events.notice('the schedule gave a rate of 0 in every step: no step changed the weights');
    if (this.#step === steps) {
      const seconds = (performance.now() - started) / 1000;
      const weights = await weightsHash(this.#run.trained.model);
      const skipped = this.#spikes && { skipped: this.#spikes.skipped };
      this.#events.log({ event: 'done', steps, seconds, weights, ...skipped });
    } else {
      const end = isIdle ? `nothing was left to do after ${startStep} of ${steps} steps` : this.#stoppedAndSaved;
      this.#events.notice(words`${end}, as --stop-after says; ${continuationOf(this.#run)}`);
    }
    if (await this.#saving.isLost()) await this.#saving.saveNow(this.#step, this.#position);
    return { out: folder.out, steps: this.#step };
  }

  /** Runs the steps. @param logged kinds of events that the log already has at the step where a resumed run starts */
  async #steps(logged: ReadonlySet<RunEvent['event']>): Promise<void> {
    const { options, ranks } = this.#run;
    const { steps, lastStep, startStep } = this.#run.span;
    const { loader } = this.#run.data;
    const { signal } = this.#hooks;
    // All ranks stop after the same step, because requests to stop arrive with the step's result.
    const isAsked = () => (ranks ? this.#ranksStop : signal.aborted);
    const isSaveDue = (step: number) =>
      typeof options.saveEvery === 'number'
        ? step % options.saveEvery === 0
        : ranks
          ? this.#ranksSave
          : this.#saving.isTimeUp;
    const isStopping = () => isAsked() || (this.#spikes?.skippedInARow ?? 0) >= mostSkippedInARow;
    for (; ; this.#step++) {
      const step = this.#step;
      this.#position = loader.position;
      const isLast = step === steps;
      const endsHere = isLast || step === lastStep;
      const isResumedHere = this.#run.folder.resumed !== undefined && step === startStep;
      const isDue = (every: number, kind: RunEvent['event']) =>
        every > 0 && (isLast || step % every === 0) && !(isResumedHere && logged.has(kind));
      const milestones = milestonesAt(this.#run, step, isDue, signal, (event) => this.#events.log(event));
      const saves = !isResumedHere && (endsHere || (step > 0 && isSaveDue(step)));
      if (milestones.length > 0 || saves || isStopping()) {
        await this.#finishUpdates();
        ranks?.liveness.pause();
      }
      // An evaluation that a stopping run skips is done when the run is resumed.
      const isComplete = await this.#runMilestones(milestones, isStopping);
      const stops = isStopping();
      if (!isResumedHere) {
        if (stops || endsHere) await this.#saving.saveNow(step, loader.position);
        else if (saves) await this.#save(step);
        // All enqueued steps were finished before the save, so the save also answers the requests in their results.
        if (saves) this.#ranksSave = false;
      }
      if (stops && !(isLast && isComplete)) throw this.#stopped();
      if (endsHere) return;
      await this.#enqueueStep(step);
    }
  }

  #save(step: number): Promise<void> {
    const { saveEvery } = this.#run.options;
    const save = () => this.#saving.save(step, this.#position);
    return typeof saveEvery === 'number' ? this.#throughput.between('save', saveEvery, step, save) : save();
  }

  /** Runs the evaluations that are due at a step. @returns false if the run must stop before all evaluations are done */
  async #runMilestones(milestones: ReturnType<typeof milestonesAt>, isStopping: () => boolean): Promise<boolean> {
    for (const { kind, every, run } of milestones) {
      if (isStopping()) return false;
      try {
        await this.#throughput.between(kind, every, this.#step, run);
      } catch (error) {
        if (!(error instanceof InterruptedError)) throw this.#ofProgram(error);
        this.#ranksStop = true;
        return false;
      }
    }
    return true;
  }

  /**
   * Ends a run whose shards have changed or whose program has thrown: saves the state trained so far, if any, and returns the error.
   * With several ranks nothing is saved, because the other ranks wait for this rank in a step. The last checkpoint remains.
   */
  async #stopAtChange(error: Error): Promise<Error> {
    const { ranks } = this.#run;
    if (ranks) return error;
    await this.#finishUpdates();
    const save = () => this.#saving.saveNow(this.#step, this.#position).catch(expected);
    const failure = this.#step > this.#run.span.startStep ? await save() : undefined;
    const end = this.#step > 0 ? this.#stoppedAndSaved : 'stopped before the first step, so that nothing was saved';
    return new Gpt2Error(`${error.message}; ${failure?.message ?? end}`, { cause: error });
  }

  /** Enqueues a step. On a GPU the result is read after the next step is enqueued, so that the device never waits for the host. */
  async #enqueueStep(step: number): Promise<void> {
    const { options, parts, span, ranks, trained } = this.#run;
    const { trainer, model } = trained;
    const enqueuedAt = performance.now();
    ranks?.liveness.begin(step);
    let lr: number;
    let begun: BegunStep;
    const position = this.#position;
    const limits = this.#spikes ? this.#spikes.limitsAt(step) : { afterUpdate: step > span.startStep };
    const requests = { stops: this.#hooks.signal.aborted, saves: this.#saving.isTimeUp };
    const isLeft = watchStep(this.#run, this.#hooks, this.#throughput);
    if (isLeft) await this.#finishStep();
    try {
      lr = parts.schedule ? parts.schedule(step) : learningRateAt({ ...options, steps: span.steps }, step);
      begun = await trainer.begin(step, lr, this.#nextBatch, limits, requests, isLeft);
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw this.#ofProgram(error);
      if (!this.#run.folder.resumed || step > span.startStep) await this.#saving.saveNow(step, position);
      throw this.#stopped();
    }
    await this.#finishStep();
    this.#enqueued = { step, lr, position, enqueuedAt, begun };
    if (!model.device.graphs) await this.#finishStep();
  }

  /** Stores an error that a program's function may have thrown, so that the run is saved. Wraps a thrown value that is no Error. */
  #ofProgram(thrown: unknown): unknown {
    if (Object.keys(this.#run.parts).length === 0 || thrown instanceof NativeError) return thrown;
    const ofValue = () => new Gpt2Error(`the program threw ${inspect(thrown)}`, { cause: thrown });
    this.#refusal = thrown instanceof Error ? thrown : ofValue();
    return this.#refusal;
  }

  /** Finishes the enqueued step and any deferred update, so that weights and optimizer state can be read. */
  async #finishUpdates(): Promise<void> {
    await this.#finishStep();
    this.#run.trained.trainer.update();
  }

  /** Waits for the enqueued step and logs it. @throws Gpt2Error if its loss or norm ends the run */
  async #finishStep(): Promise<void> {
    if (!this.#enqueued) return;
    const { step, lr, position, enqueuedAt, begun } = this.#enqueued;
    this.#enqueued = undefined;
    const { ranks, data } = this.#run;
    const result = await begun.finished();
    // Throw if another rank has failed: without that rank the result is meaningless.
    ranks?.check();
    const { loss, norm, saturated, updated, requests } = result;
    this.#largestRate = Math.max(this.#largestRate, lr);
    this.#ranksStop = requests.stops;
    this.#ranksSave ||= requests.saves;
    const now = performance.now();
    const ms = now - Math.max(enqueuedAt, this.#lastEnd);
    this.#lastEnd = now;
    ranks?.liveness.done(ms);
    if (!updated && !this.#spikes) {
      const bad = { step, result, position, nextBatch: this.#nextBatch, seek: () => data.loader.seek(position) };
      throw await stopAtBadStep(this.#run, bad, this.#saving, this.#events);
    }
    this.#spikes?.add({ step, loss, norm, skipped: !updated });
    const rate = this.#throughput.add(ms);
    const rare = { ...(saturated > 0 ? { saturated } : {}), ...(updated ? {} : { skipped: true }) };
    this.#events.log({ event: 'train', step, loss, norm, lr, ...rate, ms, ...rare });
    const outlook = this.#throughput.outlook(this.#run.description.epochs);
    if (outlook && step + 1 < this.#run.span.lastStep) this.#hooks.onOutlook?.(outlook);
  }

  get #stoppedAndSaved(): string {
    return `stopped after ${this.#step} of ${this.#run.span.steps} steps and saved`;
  }

  #stopped(): Gpt2Error {
    const { signal } = this.#hooks;
    if (!signal.aborted && !this.#ranksStop) {
      return gpt2Error`${this.#stoppedAndSaved}: the last ${this.#spikes?.skippedInARow} updates were all skipped as spikes; ${continuationOf(this.#run)} and ${smallerRate(this.#run)} or a larger --skip-spikes`;
    }
    return new StoppedError(`${this.#stoppedAndSaved}; ${continuationOf(this.#run)}`, signal);
  }

  /** The error that ends the run. For a device error, the message names the step and the last checkpoint. */
  describe(error: unknown): unknown {
    if (!(error instanceof NativeError && error.status === 'GPT2_DEVICE_ERROR')) return error;
    const { saved } = this.#events;
    const from = saved ? `${saved} is complete: ${continuationOf(this.#run)}` : 'nothing was saved';
    return new Gpt2Error(`the device failed in step ${this.#step}: ${error.message}; ${from}`, { cause: error });
  }

  close(): Promise<void> {
    return this.#saving.close();
  }
}
