// Saves a run's state: after the device's work, on a thread, one save at a time. It moves the run if its folder is lost.
// The format of a checkpoint is in ../../checkpoint; session.ts decides when a save is due. One
// long file, because a save in progress, its retries and a lost folder share one state.
import { setTimeout } from 'node:timers/promises';
import type { Position } from '../../batches/order.ts';
import { WriterError } from '../../checkpoint/background.ts';
import {
  type CheckpointHead,
  type Keeping,
  type SaveResult,
  saveState,
  stateInDevice,
  type TidyResult,
  tidy,
} from '../../checkpoint/write.ts';
import { secondsOf } from '../../checks/number.ts';
import { Gpt2Error, NativeError } from '../../errors.ts';
import { checkpointsFolder } from '../../runs/paths.ts';
import { continueWith } from '../../wording.ts';
import type { Events } from './events.ts';
import type { Run } from './run.ts';
import { shardRecord } from './same-data.ts';

/** Time between two attempts to save the end of a run. */
const retryMilliseconds = 5000;

export class Saving {
  readonly #run: Run;
  readonly #events: Events;
  /** Aborting it also ends the attempts to save. */
  readonly #signal: AbortSignal | undefined;
  /** The save in progress. It rejects only if training cannot continue. */
  #writing: { step: number; done: Promise<void> } | undefined;
  #copies = true;
  /** Milliseconds between saves, if --save-every is a time; infinite otherwise. */
  readonly #interval: number;
  #lastSave = performance.now();
  /** Why the run moved to another folder, where it ends once it is saved. */
  #lost: string | undefined;
  readonly #reported = new Set<string>();

  constructor(run: Run, events: Events, signal: AbortSignal | undefined) {
    this.#run = run;
    this.#events = events;
    this.#signal = signal;
    const { saveEvery } = run.options;
    this.#interval = 1000 * (secondsOf(saveEvery) ?? Number.POSITIVE_INFINITY);
    // Without a copy, the parts of other ranks cannot be received: better to fail before training than at the first save.
    const prepares = typeof saveEvery === 'number' ? saveEvery > 0 : run.model.sharding !== undefined;
    if (run.isRoot && prepares) this.#tryCopy(() => run.writer.prepare());
  }

  /** Whether --save-every is a time that has passed since the last save began; false on all ranks but 0. */
  get isTimeUp(): boolean {
    return this.#run.isRoot && performance.now() - this.#lastSave >= this.#interval;
  }

  /**
   * Begins to save the state after `step` updates, and returns when the state may change: training only waits for the copy from
   * the device, and for an earlier save that is still being written. After a disk error training continues. Rank 0
   * saves the parts of all ranks.
   * @param position of the next micro-batch
   */
  async save(step: number, position: Position): Promise<void> {
    const due = performance.now();
    const before = this.#writing;
    await this.#waitForSave();
    this.#lastSave = performance.now();
    const refusal = await this.#refusal();
    if (refusal) {
      if (this.#run.isRoot) this.#reportNotSaved(step, refusal);
      return;
    }
    if (this.#sentToRoot()) return;
    if (this.#lost !== undefined) return this.#writeElsewhere(step, position);
    const waitedMs = performance.now() - due;
    if (before) {
      this.#events.notice(
        `the save of step ${step} waited ${(waitedMs / 1000).toFixed(1)} s until step ${before.step} was written`,
      );
    }
    const result = this.#write(step, position, { inPlace: false });
    const heldMs = performance.now() - due - waitedMs;
    const done = result.then(
      (written) => {
        this.#writing = undefined;
        this.#logSaved(step, written, { due, heldMs, waitedMs: before && waitedMs });
      },
      (error: Error) => {
        if (!isOfDisk(error)) throw this.#logNotSaved(step, error);
        this.#writing = undefined;
        this.#reportNotSaved(step, error);
      },
    );
    // It is awaited later.
    done.catch(() => {});
    this.#writing = { step, done };
  }

  /**
   * Saves the state and waits until it is on the disk. What the disk does not take is written again and again until the run is
   * asked to stop: the weights of a finished run are worth waiting for.
   * @throws Gpt2Error if it is not saved
   */
  async saveNow(step: number, position: Position): Promise<void> {
    await this.#waitForSave();
    const refusal = await this.#refusal((work) => this.#untilTaken(step, work));
    if (refusal && this.#run.isRoot) throw refusal;
    if (!refusal && !this.#sentToRoot()) {
      try {
        await this.#writeNow(step, position, (work) => this.#untilTaken(step, work));
      } catch (error) {
        if (!isOfDisk(error) || !this.#isLostHere) throw error;
      }
      this.#endIfMoved(step);
    }
    // The folder was removed or moved during the save.
    if (await this.isLost()) await this.saveNow(step, position);
  }

  /** Retries `work` after disk errors, unless the run was asked to stop or cannot be. @throws the last error */
  async #untilTaken<R>(step: number, work: () => R | Promise<R>): Promise<R> {
    for (let isFirst = true; ; isFirst = false) {
      try {
        return await work();
      } catch (error) {
        const signal = this.#signal;
        const isTemporary = isOfDisk(error) && !(error instanceof WriterError) && !this.#isLostHere;
        if (!isTemporary || !signal || signal.aborted) throw error;
        if (isFirst) {
          this.#events.notice(
            `step ${step} is not saved yet: ${error.message}; trying again every ${retryMilliseconds / 1000} s, until Ctrl-C`,
          );
        }
        await setTimeout(retryMilliseconds, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** Saves a run that had to move and ends it, or continues training if it cannot be saved there. */
  async #writeElsewhere(step: number, position: Position): Promise<void> {
    try {
      await this.#writeNow(step, position);
    } catch (error) {
      if (!isOfDisk(error)) throw error;
      this.#events.notice(`step ${step} was not saved; training continues: ${error.message}`);
      return;
    }
    this.#endIfMoved(step);
  }

  /** @throws Gpt2Error naming the new folder if the run had to move */
  #endIfMoved(step: number): void {
    if (this.#lost === undefined) return;
    const { out, steps } = this.#run;
    throw new Gpt2Error(
      `${this.#lost}: stopped after ${step} of ${steps} steps and saved in ${out}; ${continueWith(out)}`,
    );
  }

  /** Writes the state and waits until it is on the disk. @throws Gpt2Error if it is not */
  async #writeNow(step: number, position: Position, repeat: Repeat = once): Promise<void> {
    const due = performance.now();
    const result = this.#write(step, position, { inPlace: true, repeat });
    const done = result
      .then(
        (written) => this.#logSaved(step, written, { due }),
        (error: Error) => {
          throw this.#logNotSaved(step, error);
        },
      )
      .finally(() => {
        this.#writing = undefined;
      });
    // `close` waits for it if another rank ends meanwhile.
    this.#writing = { step, done };
    await done;
  }

  /** Moves the run if its folder, or its log, is no longer where it was. @throws Gpt2Error if it cannot */
  #leaveLostFolder(): void {
    const { log, out, configuration } = this.#run;
    const { lost } = log;
    if (lost === undefined) return;
    try {
      this.#run.out = log.rescue(out, configuration);
    } catch (cause) {
      if (!isOfDisk(cause)) throw cause;
      throw new Gpt2Error(
        `${lost}, and the run could not be saved next to it: ${cause.message}; make that folder writable or free space there`,
        { cause },
      );
    }
    this.#lost = lost;
  }

  get #isLostHere(): boolean {
    return this.#run.isRoot && this.#run.log.lost !== undefined;
  }

  /** Whether the run folder was removed or moved; all ranks ask at the same time. */
  async isLost(): Promise<boolean> {
    return (await this.#run.ranks?.fromRoot(this.#isLostHere)) ?? this.#isLostHere;
  }

  /**
   * Waits until no save is in progress on any rank, so that none waits in a collective for the disk of another.
   * @throws if training cannot continue
   */
  async #waitForSave(): Promise<void> {
    await this.#writing?.done;
    await this.#run.ranks?.barrier();
    this.#run.ranks?.liveness.rest();
  }

  /**
   * Why the log cannot be written, in place or elsewhere. Every rank learns it, so that none sends its part to a save that fails.
   * A resumed run appends to the log's earlier lines, so they must be there.
   */
  async #refusal(repeat: Repeat = once): Promise<Gpt2Error | undefined> {
    let refusal: Gpt2Error | undefined;
    if (this.#run.isRoot) {
      try {
        await repeat(() => {
          this.#run.log.flush();
          this.#leaveLostFolder();
        });
      } catch (error) {
        if (!isOfDisk(error)) throw error;
        refusal = error;
      }
    }
    const refused = await this.#run.ranks?.fromRoot(refusal?.message ?? '');
    return refusal ?? (refused ? new Gpt2Error(refused) : undefined);
  }

  #reportNotSaved(step: number, error: Gpt2Error): void {
    this.#logNotSaved(step, error);
    this.#events.notice(`step ${step} was not saved; training continues: ${error.message}`);
  }

  /** Logs why there is no checkpoint, and returns the error. */
  #logNotSaved<E extends Error>(step: number, error: E): E {
    this.#events.log({ event: 'notSaved', step, reason: error.message });
    return error;
  }

  /** Sends this rank's part to rank 0, which saves. Returns false on rank 0. */
  #sentToRoot(): boolean {
    if (this.#run.isRoot) return false;
    this.#run.writer.send();
    return true;
  }

  /** Waits for a save in progress, whether it fails or not, then ends the thread. */
  async close(): Promise<void> {
    await this.#writing?.done.catch(() => {});
    await this.#run.writer.close();
  }

  async #write(
    step: number,
    position: Position,
    { inPlace, repeat = once }: { inPlace: boolean; repeat?: Repeat },
  ): Promise<SaveResult> {
    const { options, out, log, program, configuration, model, loader, trainer, writer, tokenizer } = this.#run;
    const head: CheckpointHead = {
      folder: checkpointsFolder(out),
      step,
      ...(tokenizer?.file === undefined ? {} : { tokenizer: tokenizer.file }),
      manifest: {
        program,
        configuration,
        position,
        logBytes: log.bytes,
        codePath: model.device.description.codePath,
        shards: loader.shards.map(shardRecord),
        ...(inPlace || this.#interval === Number.POSITIVE_INFINITY ? {} : { timed: true }),
      },
    };
    const keeping = keepingOf(options);
    const direct = async () => saveState(head, stateInDevice(model, trainer.optimizerState.copies), keeping);
    const begun = this.#tryCopy(() => writer.write(head, keeping, { inPlace }));
    let attempt = () => begun ?? direct();
    return repeat(async () => {
      const result = await attempt().catch((error) => {
        // The state has not changed: write it without the thread.
        if (inPlace && error instanceof WriterError && !model.sharding) return direct();
        throw error;
      });
      this.#reportFailures(result);
      if (result.failure === undefined) return result;
      // Other ranks send their parts only once.
      if (begun) attempt = () => writer.again();
      throw new Gpt2Error(result.failure);
    });
  }

  /** A copy takes host memory. Without it a save is slower, and cannot receive the parts of other ranks. */
  #tryCopy<R>(copy: () => R): R | undefined {
    if (!this.#copies) return undefined;
    try {
      return copy();
    } catch (error) {
      if (!(error instanceof NativeError) || error.status !== 'GPT2_OUT_OF_MEMORY' || this.#run.model.sharding)
        throw error;
      this.#copies = false;
      const gib = (this.#run.writer.copyBytes / 2 ** 30).toFixed(1);
      this.#events.notice(
        `too little host memory for a copy of ${gib} GiB: training waits while each checkpoint is written`,
      );
      return undefined;
    }
  }

  #logSaved(
    step: number,
    { path }: SaveResult,
    { due, ...times }: { due: number; heldMs?: number; waitedMs?: number },
  ): void {
    this.#events.log({ event: 'checkpoint', step, path: path!, ms: performance.now() - due, ...times });
  }

  /** Removes what an earlier process's saves left, for a run that has nothing to save itself. */
  tidy(): void {
    const { options, out } = this.#run;
    if (this.#run.isRoot) this.#reportFailures(tidy(checkpointsFolder(out), keepingOf(options)));
  }

  /** Reports each failure only once: every save finds it again. */
  #reportFailures({ clearFailure, pruneFailure }: TidyResult): void {
    for (const failure of [clearFailure, pruneFailure]) {
      if (failure === undefined || this.#reported.has(failure)) continue;
      this.#reported.add(failure);
      this.#events.notice(`${failure}; training continues`);
    }
  }
}

/** Does work once, or until it succeeds. */
type Repeat = <R>(work: () => R | Promise<R>) => Promise<R>;
const once: Repeat = async (work) => work();

/** Without --keep, checkpoints that were made by time make place for newer ones. */
const keepingOf = ({ keep, keepEvery }: Run['options']): Keeping =>
  keep === undefined ? { keep: 2, onlyTimed: true } : { keep, keepEvery };

/** Whether training can continue: after a disk error it can, after a device error it cannot. */
const isOfDisk = (error: unknown): error is Gpt2Error => error instanceof Gpt2Error && !(error instanceof NativeError);
