// Runs optimizer steps: copies a step's values and tokens to the device, runs its ops (step-ops.ts), and reads the results. A GPU
// launches micro-batches and the end of a step as graphs; tokens, step values and results are copied between the graphs, so that
// the host can enqueue a step while the device works on the previous one.
import { checkArguments, checkGiven, checkValue, factor, real, whole } from '../../base/checks/given.ts';
import { gpt2Error, InterruptedError, usageError } from '../../base/errors.ts';
import { checkBatch, uploadsOf, writeBatch } from '../../data/batches/batch.ts';
import type { Batch } from '../../data/batches/loader.ts';
import { architectureOf } from '../../model/architecture.ts';
import type { ParameterArena } from '../../model/arena.ts';
import type { Windows } from '../../model/mask.ts';
import { checkFilled, type Model } from '../../model/model.ts';
import { GPT2_STEP, type Pointer } from '../../native/bindings.generated.ts';
import type { Communicator } from '../../native/communicator.ts';
import type { Program } from '../../native/device.ts';
import type { OptimizerState } from '../../optimizer/state.ts';
import { type Requests, type StagingBuffer, type StepResult, stagingBufferOf, type UpdateLimits } from './staging.ts';
import { type MicroBatch, type StepOps, type StepOptions, stepOpsOf } from './step-ops.ts';

export interface TrainerOptions extends StepOptions {
  /**
   * Whether `begin` leaves a step's update to the next step, which enqueues the update first. Results have the same bits. Default:
   * only with ZeRO-1, where weights are gathered while the next forward pass begins.
   */
  readonly defersUpdate?: boolean | undefined;
  /** Returns a step's attention windows in tokens; steps count from 0. Only for a model with `window`. Default: the model's windows. */
  readonly windowsAt?: ((step: number) => Windows | undefined) | undefined;
}

/** The largest fp32 number: as a limit it accepts every finite value. */
const largestFloat = 3.4028234663852886e38;

const lastTrainers = new WeakMap<Model, Trainer>();

/** A step that `Trainer.begin` has enqueued. */
export interface BegunStep {
  /** Milliseconds that the host took to enqueue the step. */
  readonly hostMilliseconds: number;
  /** Waits until the step is done, without blocking the event loop. */
  finished(): Promise<StepResult>;
}

/**
 * Runs optimizer steps on a model: gradients of micro-batches, their norm, and the update.
 * @throws UsageError for an option out of range, a model made for inference, or an optimizer that cannot update a parameter;
 * ShapeError for a batch that is too large for the model's activations
 * @example
 * const optimizer = new AdamW({ weightDecay: 0.1 });
 * const trainer = new Trainer(model, { batch: 4, sequence: 64, accumulation: 1, optimizer, gradientClip: 1 });
 * const { loss, norm } = await trainer.step(0, 6e-4, () => loader.next());
 */
export class Trainer {
  readonly model: Model;
  readonly options: TrainerOptions;
  /** After a step: gradients of the summed loss / all targets. Optimizers multiply them by step[CLIP], which corrects for targets of -1. */
  readonly gradients: ParameterArena;
  readonly optimizerState: OptimizerState;
  readonly #ops: StepOps;
  readonly #hasRanks: boolean;
  readonly #defersUpdate: boolean;
  readonly #microBatches = new Map<string, Program>();
  readonly #endOfStep: Program;
  readonly #updateAlone: Program;
  /** Whether the last step's update has not been enqueued yet. */
  #updatePending = false;
  readonly #staging: readonly StagingBuffer[];
  #begun = 0;
  /** Two events, used in turn: an event is reached when its micro-batch is finished. */
  #events: readonly Pointer[] | undefined;

  /** @param communicator connects the ranks that share a step, each with separate micro-batches */
  constructor(model: Model, options: TrainerOptions, communicator?: Communicator) {
    checkArguments({ model });
    const { device, sharding } = model;
    checkOptions(options);
    checkModel(model, options);
    this.model = model;
    this.options = options;
    this.#ops = stepOpsOf(model, options, communicator);
    this.gradients = this.#ops.gradients;
    this.optimizerState = this.#ops.optimizerState;
    this.#hasRanks = communicator !== undefined;
    this.#defersUpdate = options.defersUpdate ?? sharding !== undefined;
    this.#endOfStep = device.program(() => {
      this.#ops.norm();
      if (!this.#defersUpdate) this.#ops.update.enqueue();
    });
    this.#updateAlone = device.program(() => this.#ops.update.enqueue());
    const { batch: B, sequence: T, accumulation } = options;
    const { firstLong, firstShort } = model.activations.at(B, T).model;
    const values = B * T * accumulation * (2 + (firstLong ? 1 : 0) + (firstShort ? 1 : 0));
    this.#staging = [stagingBufferOf(device, values), stagingBufferOf(device, values)];
  }

  #windowsAt(index: number): Windows | undefined {
    const windows = this.options.windowsAt?.(index);
    if (windows === undefined) return undefined;
    checkGiven(windows, {}, { long: whole(1), short: whole(1) });
    if (this.model.config.window !== undefined) return windows;
    throw usageError`windowsAt has no effect on a model without window; leave it out, or give the model's config a window`;
  }

  /** Enqueues the ops of a step without values and tokens: a plan calls this on an absent device, to count the calls of ops. */
  enqueueOps(): void {
    this.#ops.microBatch({ accumulate: false, sums: false, updates: false });
    this.#ops.norm(this.gradients);
    this.#ops.update.enqueue();
  }

  #microBatch(which: MicroBatch): Program {
    const name = JSON.stringify(which);
    const program = this.#microBatches.get(name) ?? this.model.device.program(() => this.#ops.microBatch(which));
    this.#microBatches.set(name, program);
    return program;
  }

  /**
   * Runs step `index` (counted from 0) with micro-batches from `nextBatch`, and its update.
   * @throws UsageError for uninitialized weights; ShapeError for a micro-batch that is not B x T tokens of the vocabulary; Gpt2Error
   * if all targets of the step are -1, which leaves weights and optimizer state unchanged
   */
  async step(index: number, learningRate: number, nextBatch: () => Batch, limits?: UpdateLimits): Promise<StepResult> {
    const { finished } = await this.begin(index, learningRate, nextBatch, limits);
    this.update();
    return finished();
  }

  /**
   * Enqueues the last step's update if it was deferred (`TrainerOptions.defersUpdate`) and is still due. Must be called before
   * anything but a step reads or writes weights or optimizer state.
   */
  update(): void {
    if (!this.#updatePending) return;
    this.#updatePending = false;
    this.#updateAlone.run();
  }

  /**
   * Computes the gradients of a step's micro-batches again, without an update: op by op instead of as a graph, with the same bits.
   * Each rank computes only its micro-batches. `onMicroBatch` is called before the ops of each micro-batch.
   * @param index the step's index, which determines its attention windows; default: the model's windows
   */
  recompute(
    nextBatch: () => Batch,
    onMicroBatch: (index: number) => void,
    index?: number,
  ): Promise<Pick<StepResult, 'loss' | 'norm'>> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device, activations } = this.model;
    return activations.inTurn(async () => {
      checkArguments({ nextBatch });
      const set = activations.at(B, T);
      const windows = index === undefined ? undefined : this.#windowsAt(index);
      this.update();
      let targets = 0;
      for (let micro = 0; micro < accumulation; micro++) {
        targets += writeBatch(this.model, set, nextBatch(), windows);
        onMicroBatch(micro);
        this.#ops.microBatch({ accumulate: micro > 0, sums: false, updates: false });
        await device.finished();
      }
      this.#ops.block.view([1], GPT2_STEP.GPT2_STEP_TARGETS).write(Float32Array.of(targets));
      this.#ops.norm(this.gradients);
      const block = this.#ops.block.readInto(new Float32Array(GPT2_STEP.GPT2_STEP_SIZE));
      return { loss: block[GPT2_STEP.GPT2_STEP_LOSS]!, norm: block[GPT2_STEP.GPT2_STEP_NORM]! };
    });
  }

  /**
   * Enqueues step `index` and returns while a GPU still works on it, so that the next step can be enqueued before the result is
   * read. A CPU has finished the step on return, except for a deferred update. Two steps may be in progress; a third waits for the
   * first. Signals and timers run between micro-batches.
   * @param requests this rank's requests to stop or to save; every rank finds them in the step's result
   * @param isLeft called between micro-batches with the number of finished micro-batches; if it returns true, the step is
   * abandoned: weights and optimizer state stay. With `isLeft`, a GPU has at most two micro-batches enqueued.
   * @throws InterruptedError if the step was abandoned
   */
  begin(
    index: number,
    learningRate: number,
    nextBatch: () => Batch,
    limits: UpdateLimits = {},
    requests: Requests = { stops: false, saves: false },
    isLeft?: (done: number) => boolean,
  ): Promise<BegunStep> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device, activations } = this.model;
    return activations.inTurn(async () => {
      checkStep(index, learningRate, limits);
      checkArguments({ nextBatch });
      checkFilled(this.model);
      // First enqueue the deferred update, if any, of another trainer that last trained this model.
      const last = lastTrainers.get(this.model);
      if (last !== this) last?.update();
      lastTrainers.set(this.model, this);
      const { loss = largestFloat, norm = largestFloat, afterUpdate = false } = limits;
      const scalars = this.optimizerState.scalarsAt(index);
      const windows = this.#windowsAt(index);
      const set = activations.at(B, T);
      const staging = this.#staging[this.#begun++ % this.#staging.length]!;
      await staging.pending?.();
      const started = performance.now();

      const [lossLimit, normLimit] = [Math.min(loss, largestFloat), Math.min(norm, largestFloat)];
      staging.setValues({ learningRate, scalars, loss: lossLimit, norm: normLimit, afterUpdate, requests });
      let targets = 0;
      for (let micro = 0; micro < accumulation; micro++) {
        const batch = nextBatch();
        targets += checkBatch(this.model, set, batch, `step ${index}: `);
        const isLast = micro === accumulation - 1;
        if (isLast) {
          if (targets === 0 && !this.#hasRanks) throw noTargets(index);
          staging.setTargets(targets);
          staging.uploadValues(this.#ops.block, GPT2_STEP.GPT2_STEP_TARGETS, GPT2_STEP.GPT2_STEP_STOP);
        }
        staging.uploadBatch(uploadsOf(this.model, set, batch, windows), micro);
        const updates = micro === 0 && this.#updatePending;
        this.#microBatch({ accumulate: micro > 0, sums: this.#hasRanks && isLast, updates }).run();
        if (updates) this.#updatePending = false;
        const done = await this.#finishedOf(micro, isLeft !== undefined);
        if (done > 0 && done < accumulation && isLeft?.(done)) {
          await device.finished();
          throw new InterruptedError(`step ${index} was left after ${done} of ${accumulation} micro-batches`);
        }
      }
      // Copy these values only now, because the previous step's deferred update, in the first micro-batch, needs the previous values.
      staging.uploadValues(this.#ops.block, GPT2_STEP.GPT2_STEP_LEARNING_RATE, GPT2_STEP.GPT2_STEP_TARGETS - 1);
      this.#endOfStep.run();
      this.optimizerState.changed();
      this.#updatePending = this.#defersUpdate;
      const result = staging.downloadResult(this.#ops.block);
      const finished = async () => {
        const found = await result();
        if (found.targets === 0) throw noTargets(index);
        return found;
      };
      return { hostMilliseconds: performance.now() - started, finished };
    });
  }

  /**
   * On a CPU, waits for micro-batch `micro`. On a GPU, waits for `micro` - 1, so that the GPU always has work, or for none if nobody
   * counts micro-batches (`isCounted` false).
   * @returns the number of micro-batches that are known to be finished
   */
  async #finishedOf(micro: number, isCounted: boolean): Promise<number> {
    const { device } = this.model;
    if (!device.graphs) {
      await device.finished();
      return micro + 1;
    }
    if (!isCounted) return 0;
    this.#events ??= [device.createEvent(), device.createEvent()];
    const events = this.#events;
    device.record(events[micro % 2]!);
    if (micro > 0) await device.reached(events[(micro - 1) % 2]!);
    return micro;
  }
}

function checkOptions(options: TrainerOptions): void {
  const sizes = { batch: whole(1), sequence: whole(1), accumulation: whole(1) };
  const switches = { overlapsBackward: 'switch', defersUpdate: 'switch' } as const;
  const optional = { ...switches, loss: 'object', windowsAt: 'function' } as const;
  checkGiven(options, { ...sizes, optimizer: 'object or function', gradientClip: real(0) }, optional);
  const { loss } = options;
  if (loss) for (const name of ['forward', 'backward'] as const) checkValue(`${name} of loss`, 'function', loss[name]);
}

/** Rejects batches that do not fit the model's activations, before memory is allocated. */
function checkModel({ config, activations }: Model, { batch, sequence, loss }: TrainerOptions): void {
  if (loss && architectureOf(config).softcap > 0) throw usageError`loss takes a model without a softcap`;
  if (sequence > config.context) {
    throw usageError`sequence takes at most the model's context of ${config.context}, not ${sequence}`;
  }
  if (activations.at(batch, sequence).backward) return;
  throw usageError`the model was made for inference: create it with purpose: 'training'`;
}

/** The error for a step whose targets are all -1. The device updates nothing, because the loss is 0 / 0. */
const noTargets = (index: number) => gpt2Error`step ${index} has no target to learn from: all are -1`;

/** Rejects values with which the update would turn weights into NaN. */
function checkStep(index: number, learningRate: number, limits: UpdateLimits): void {
  checkGiven(limits, {}, { loss: real(-largestFloat, Number.MAX_VALUE), norm: factor, afterUpdate: 'switch' });
  checkValue("a step's index", whole(0), index);
  checkValue(`the learning rate of step ${index}`, real(0), learningRate);
}
