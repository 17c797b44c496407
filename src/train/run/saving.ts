// Saves a run's state: waits for the device, then writes on a thread, one save at a time. If the run folder was removed, creates it
// again. state-writer.ts writes the checkpoint; session.ts decides when a save is due.
import { setTimeout } from 'node:timers/promises';
import { secondsOf } from '../../base/checks/given.ts';
import { Gpt2Error, NativeError } from '../../base/errors.ts';
import type { Position } from '../../data/batches/order.ts';
import { isRoot } from '../../ranks/ranks.ts';
import { WriterError } from '../../weights/checkpoint/background.ts';
import type { SaveResult } from '../../weights/checkpoint/write.ts';
import { WeightsError } from '../../weights/files/layout.ts';
import type { Events } from './events.ts';
import { once, type Repeat, type SavedRun, stateWriterOf } from './state-writer.ts';

/** Milliseconds between two attempts to save after a disk error. */
const retryMilliseconds = 5000;

export class Saving {
  readonly #run: SavedRun;
  readonly #isRoot: boolean;
  readonly #events: Events;
  /** A failed `saveNow` is retried until this signal is aborted; undefined: no retries. */
  readonly #signal: AbortSignal | undefined;
  /** The save in progress; `done` rejects only if training cannot continue. */
  #writing: { step: number; done: Promise<void> } | undefined;
  /** Milliseconds between saves, if --save-every is a time; infinite otherwise. */
  readonly #interval: number;
  #lastSave = performance.now();
  readonly #state: ReturnType<typeof stateWriterOf>;

  constructor(run: SavedRun, events: Events, signal: AbortSignal | undefined) {
    this.#run = run;
    this.#isRoot = isRoot(run.ranks);
    this.#events = events;
    this.#signal = signal;
    const { saveEvery } = run.options;
    this.#interval = 1000 * (secondsOf(saveEvery) ?? Number.POSITIVE_INFINITY);
    // Allocate the host copy now: rank 0 needs it for other ranks' state, and lack of memory must be reported before training.
    const prepares = typeof saveEvery === 'number' ? saveEvery > 0 : run.trained.model.sharding !== undefined;
    this.#state = stateWriterOf(run, (text) => events.notice(text));
    if (this.#isRoot && prepares) this.#state.prepare();
  }

  /** Whether --save-every is a time that has passed since the last save began; always false on ranks other than 0. */
  get isTimeUp(): boolean {
    return this.#isRoot && performance.now() - this.#lastSave >= this.#interval;
  }

  /**
   * Begins to save the state after `step` updates, and returns as soon as training may change the state: after the copy from the
   * device is enqueued. If an earlier save is still being written, waits for that save first. After a disk error training
   * continues. Rank 0 saves the state of all ranks.
   */
  async save(step: number, position: Position): Promise<void> {
    const due = performance.now();
    const before = this.#writing;
    const all = await this.#ofAllRanks(position);
    const refusal = await this.#ready();
    this.#lastSave = performance.now();
    if (!this.#isRoot) return;
    if (refusal) return this.#notSaved(step, refusal);
    const waitedMs = performance.now() - due;
    if (before) {
      const seconds = (waitedMs / 1000).toFixed(1);
      this.#events.notice(`the save of step ${step} waited ${seconds} s until step ${before.step} was written`);
    }
    const result = this.#state.write({ step, position: all, inPlace: false, timed: Number.isFinite(this.#interval) });
    const times = { heldMs: performance.now() - due - waitedMs, waitedMs: before && waitedMs };
    const done = result.then(
      (written) => this.#saved(step, written, due, times),
      (error) => this.#notSaved(step, error),
    );
    done.catch(() => {}); // `done` is awaited later: until then a rejection must not count as unhandled
    this.#writing = { step, done };
  }

  /**
   * Saves the state and waits until the save is on the disk. After a disk error, retries until the run is asked to stop, because
   * the weights of a finished run are worth waiting for. A run folder that was removed meanwhile is created again.
   * @throws Gpt2Error if the state is not saved
   */
  async saveNow(step: number, position: Position): Promise<void> {
    const repeat: Repeat = (work) => this.#untilTaken(step, work);
    do {
      const due = performance.now();
      const all = await this.#ofAllRanks(position);
      const refusal = await this.#ready(repeat);
      if (!this.#isRoot) continue;
      if (refusal) throw refusal;
      const result = this.#state.write({ step, position: all, inPlace: true, timed: false }, repeat);
      // Keep the promise, so that `close` waits for this save if another rank ends the run meanwhile.
      this.#writing = { step, done: result.then((written) => this.#saved(step, written, due)) };
      await this.#writing.done.catch((error: Error) => {
        this.#writing = undefined;
        this.#events.log({ event: 'notSaved', step, reason: error.message });
        if (!isOfDisk(error) || !this.#isLostHere) throw error;
      });
    } while (await this.isLost());
  }

  /** The position to save. If a program supplies the batches, gathers the positions of all ranks, in the order of ranks. */
  async #ofAllRanks(position: Position): Promise<Position> {
    const { ranks } = this.#run;
    if (!position.ofProgram || !ranks) return position;
    return { ...position, ofProgram: (await ranks.allGather([...position.ofProgram])).flat() };
  }

  get #isLostHere(): boolean {
    return this.#isRoot && this.#run.folder.log.lost !== undefined;
  }

  /** Whether the run folder or its log was removed, moved or replaced; all ranks call this at the same time. */
  async isLost(): Promise<boolean> {
    return (await this.#run.ranks?.fromRoot(this.#isLostHere)) ?? this.#isLostHere;
  }

  /** Runs `work`, and again after each disk error until `#signal` is aborted; without a signal, only once. @throws the last error */
  async #untilTaken<R>(step: number, work: () => R | Promise<R>): Promise<R> {
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await work();
      } catch (error) {
        const signal = this.#signal;
        const isTemporary = isOfDisk(error) && !(error instanceof WriterError) && !this.#isLostHere;
        if (!isTemporary || !signal || signal.aborted) throw error;
        const rhythm = `trying again every ${retryMilliseconds / 1000} s, until Ctrl-C`;
        if (isFirst) this.#events.notice(`step ${step} is not saved yet: ${error.message}; ${rhythm}`);
        await setTimeout(retryMilliseconds, undefined, { signal }).catch(() => {});
      }
    }
  }

  /**
   * Waits until no rank has a save in progress, so that no rank waits in a collective for another rank's disk. Then rank 0 writes the
   * log lines that wait in memory, because a resumed run appends to the log. Only if rank 0 succeeds do other ranks send their state.
   * @returns the error if rank 0 cannot write the log @throws if training cannot continue
   */
  async #ready(repeat: Repeat = once): Promise<Gpt2Error | undefined> {
    await this.#writing?.done;
    const { ranks, folder } = this.#run;
    await ranks?.barrier();
    ranks?.liveness.rest();
    let refusal: Gpt2Error | undefined;
    const flush = () => {
      const { out = folder.out, lost } = folder.log.restore(folder.out, folder.configuration) ?? {};
      folder.out = out;
      if (lost !== undefined) this.#events.notice(`${lost}; the run continues in ${out}`);
      folder.log.flush();
    };
    try {
      if (this.#isRoot) await repeat(flush);
    } catch (error) {
      if (!isOfDisk(error)) throw error;
      refusal = error;
    }
    const isRefused = (await ranks?.fromRoot(refusal !== undefined)) ?? false;
    if (!this.#isRoot && !isRefused) this.#run.trained.writer.send();
    return refusal;
  }

  #saved(step: number, { path }: SaveResult, due: number, times: { heldMs?: number; waitedMs?: number } = {}): void {
    this.#writing = undefined;
    this.#events.log({ event: 'checkpoint', step, path: path!, ms: performance.now() - due, ...times });
  }

  /** Logs that a save failed. @throws the save's error if training cannot continue */
  #notSaved(step: number, error: Error): void {
    this.#events.log({ event: 'notSaved', step, reason: error.message });
    if (!isOfDisk(error)) throw error;
    this.#writing = undefined;
    this.#events.notice(`step ${step} was not saved; training continues: ${error.message}`);
  }

  /** Waits for a save in progress, whether it succeeds or fails, then ends the writer's thread. */
  async close(): Promise<void> {
    await this.#writing?.done.catch(() => {});
    await this.#run.trained.writer.close();
  }

  /** Removes the remains of interrupted saves. For a run that makes no save: each save also removes such remains. */
  tidy(): void {
    if (this.#isRoot) this.#state.tidy();
  }
}

/** Whether an error comes from the disk. Training continues after a disk error, but not after an error of the device or weights. */
const isOfDisk = (error: unknown): error is Gpt2Error =>
  error instanceof Gpt2Error && !(error instanceof NativeError || error instanceof WeightsError);
