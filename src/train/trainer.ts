// One optimizer step: micro-batches forward and backward, the gradient norm, AdamW (update.ts). Owns what training adds to a
// model: gradients, moments, and the step block through which step values go in and loss and norm come out. A GPU replays
// micro-batches, and what ends a step, as graphs; tokens, step values and results are copied between them, so that the host
// runs a step ahead.
import { checkBatch, writeBatch } from '../batches/batch.ts';
import type { Batch } from '../batches/loader.ts';
import { ShapeError, UsageError } from '../errors.ts';
import { ParameterArena, type ParameterCopy } from '../model/arena.ts';
import { backward } from '../model/backward.ts';
import { forward } from '../model/forward.ts';
import { headForwardBackward } from '../model/head.ts';
import { fp32Copy, type Model } from '../model/model.ts';
import { GPT2_STEP } from '../native/bindings.generated.ts';
import { allocateTensor, type Tensor } from '../native/buffer.ts';
import type { Communicator } from '../native/communicator.ts';
import type { Program } from '../native/device.ts';
import { globalNormOfRanks } from '../ops/collectives.ts';
import { globalNorm, globalNormScratch, lossSum } from '../ops/ops.generated.ts';
import { Exchange } from './exchange.ts';
import { Slot, type StepResult, type StepValues } from './slot.ts';
import { corrections, Update } from './update.ts';

export interface TrainerOptions {
  /** Sequences in a micro-batch. */
  readonly batch: number;
  /** Tokens in a sequence. */
  readonly sequence: number;
  /** Micro-batches in a step, of each rank. */
  readonly accumulation: number;
  readonly weightDecay: number;
  /** Largest gradient norm; 0 clips nothing. */
  readonly gradientClip: number;
  /**
   * Whether `begin` leaves a step's update to the step after it: the same bits, later; see `update`. Default: where weights
   * are spread over ranks, and return while the next forward pass begins.
   */
  readonly defersUpdate?: boolean;
  /** With other ranks, whether gradients are summed beside the backward pass, or behind it; see exchange.ts. Default true. */
  readonly besideBackward?: boolean;
}

/** The largest number of fp32: as a limit it lets everything pass but what is not finite. */
export const largestFloat = 3.4028234663852886e38;

/** When a step changes weights and moments. Decided by the device, which may work on a step before the last is known. */
export interface UpdateLimits {
  /** A loss over it, or one that is not finite, updates nothing. Default: none. */
  readonly loss?: number;
  /** The same of the gradient norm. */
  readonly norm?: number;
  /** Whether the step updates nothing either if the one before did not. Default false. */
  readonly afterUpdate?: boolean;
}

/** A step that was issued. */
export interface BegunStep {
  /** How long the program was busy issuing it. */
  readonly hostMilliseconds: number;
  /** Waits until the step is done, without blocking the event loop. */
  finished(): Promise<StepResult>;
}

/** What tells a micro-batch of a step from another. */
interface MicroBatch {
  /** Adds to the gradients of those before it. */
  readonly accumulate: boolean;
  /** Is the last, whose gradients go to other ranks. */
  readonly exchanges: boolean;
  /** Begins with the update of the step before. */
  readonly updates: boolean;
}

export class Trainer {
  readonly model: Model;
  readonly options: TrainerOptions;
  /** First moments. */
  readonly m: ParameterCopy;
  /** Second moments. */
  readonly v: ParameterCopy;
  readonly gradients: ParameterArena;
  readonly #step: Tensor;
  readonly #exchange: Exchange | undefined;
  readonly #defersUpdate: boolean;
  readonly #update: Update;
  readonly #microBatches = new Map<string, Program>();
  readonly #endOfStep: Program;
  readonly #updateAlone: Program;
  /** Whether the last step's update is still to be done. */
  #owesUpdate = false;
  readonly #slots: readonly Slot[];
  #begun = 0;

  /** @param communicator with the ranks that a step is spread over, each with micro-batches of its own */
  constructor(model: Model, options: TrainerOptions, communicator?: Communicator) {
    const { device, config, sharing } = model;
    checkSizes(options);
    this.model = model;
    this.options = options;
    const { gradientType } = device;
    this.gradients = new ParameterArena(device, config, 'gradients', gradientType, 'fp32', sharing?.communicator.ranks);
    this.m = fp32Copy(device, config, 'moments', sharing);
    this.v = fp32Copy(device, config, 'moments', sharing);
    if (communicator) {
      this.#exchange = new Exchange(model, this.gradients, communicator, options.besideBackward ?? true);
    }
    this.#step = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
    const { matrices, vectors } = this.gradients;
    device.reserveWorkspace(globalNormScratch(device, { matrixCount: matrices.count, vectorCount: vectors.count }));
    const { gradients, m, v } = this;
    this.#defersUpdate = options.defersUpdate ?? sharing !== undefined;
    this.#update = new Update(
      { model, gradients, m, v, step: this.#step, weightDecay: options.weightDecay },
      this.#exchange,
    );
    this.#endOfStep = device.program(() => {
      this.#issueNorm();
      if (!this.#defersUpdate) this.#update.issue();
    });
    this.#updateAlone = device.program(() => this.#update.issue());
    const tokens = options.batch * options.sequence * options.accumulation;
    this.#slots = [new Slot(device, tokens), new Slot(device, tokens)];
  }

  #microBatch(which: MicroBatch): Program {
    const name = JSON.stringify(which);
    const known = this.#microBatches.get(name);
    if (known) return known;
    const program = this.model.device.program(() => this.#issueMicroBatch(which));
    this.#microBatches.set(name, program);
    return program;
  }

  #issueMicroBatch({ accumulate, exchanges, updates }: MicroBatch): void {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { model } = this;
    const activations = model.activations.at(B, T);
    // Of all ranks, whose gradients and losses are summed.
    const scale = 1 / (B * T * accumulation * (this.#exchange?.communicator.ranks ?? 1));
    const exchange = exchanges ? this.#exchange : undefined;
    forward(model, activations, updates ? this.#update.issueForForward() : undefined);
    headForwardBackward(model, activations, this.gradients, { dloss: scale, accumulate });
    backward(model, activations, this.gradients, { accumulate, layerDone: exchange?.layerDone });
    lossSum(model.device, { step: this.#step, losses: activations.model.losses, scale, accumulate });
    exchange?.microBatchDone(this.#step);
  }

  #issueNorm(): void {
    const { matrices, vectors } = this.gradients;
    const { communicator, ...normed } = this.#exchange?.normed ?? { matrices, vectors };
    const args = { step: this.#step, ...normed, maxNorm: this.options.gradientClip };
    if (communicator) globalNormOfRanks(communicator, args);
    else globalNorm(this.model.device, args);
  }

  /**
   * Does step `index` (counted from 0) with the micro-batches that `nextBatch` gives, and its update.
   * @throws ShapeError for a micro-batch that is not B x T tokens of the vocabulary; weights and moments stay as they are
   */
  async step(index: number, learningRate: number, nextBatch: () => Batch, limits?: UpdateLimits): Promise<StepResult> {
    const { finished } = await this.begin(index, learningRate, nextBatch, limits);
    this.update();
    return finished();
  }

  /**
   * Issues the update that the last step begun has left to the next (TrainerOptions.defersUpdate), if it has. To be called
   * before anything but a step reads or writes weights or moments.
   */
  update(): void {
    if (!this.#owesUpdate) return;
    this.#owesUpdate = false;
    this.#updateAlone.run();
  }

  /**
   * Computes the gradients of a step's micro-batches again, without an update, op by op where `step` replays a graph: the
   * same bits. Of several ranks each computes its own. `onMicroBatch` is told before each.
   */
  recompute(nextBatch: () => Batch, onMicroBatch: (index: number) => void): Promise<Pick<StepResult, 'loss' | 'norm'>> {
    return this.model.activations.inTurn(() => this.#recompute(nextBatch, onMicroBatch));
  }

  async #recompute(
    nextBatch: () => Batch,
    onMicroBatch: (index: number) => void,
  ): Promise<Pick<StepResult, 'loss' | 'norm'>> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device } = this.model;
    const activations = this.model.activations.at(B, T);
    this.update();
    for (let micro = 0; micro < accumulation; micro++) {
      writeBatch(this.model, activations, nextBatch());
      onMicroBatch(micro);
      this.#issueMicroBatch({ accumulate: micro > 0, exchanges: false, updates: false });
      await device.finished();
    }
    const { matrices, vectors } = this.gradients;
    globalNorm(device, { step: this.#step, matrices, vectors, maxNorm: this.options.gradientClip });
    const block = this.#step.readInto(new Float32Array(GPT2_STEP.GPT2_STEP_SIZE));
    return { loss: block[GPT2_STEP.GPT2_STEP_LOSS]!, norm: block[GPT2_STEP.GPT2_STEP_NORM]! };
  }

  /**
   * Issues step `index` and returns while a GPU still works on it, so that the next can be issued before its result is read;
   * on the CPU it is then done, but for an update that is left to the next. Two steps may be under way; a third waits for the
   * first. Signals and timers get their turn between micro-batches.
   * @param stops whether this rank was asked to stop: every rank then finds it in the step's result
   */
  begin(
    index: number,
    learningRate: number,
    nextBatch: () => Batch,
    { loss = largestFloat, norm = largestFloat, afterUpdate = false }: UpdateLimits = {},
    stops = false,
  ): Promise<BegunStep> {
    const values = { learningRate, scalars: corrections(index), loss, norm, afterUpdate, stops };
    return this.model.activations.inTurn(() => {
      checkStep(index, learningRate);
      return this.#begin(values, nextBatch);
    });
  }

  async #begin(values: StepValues, nextBatch: () => Batch): Promise<BegunStep> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device } = this.model;
    const activations = this.model.activations.at(B, T);
    const slot = this.#slots[this.#begun++ % this.#slots.length]!;
    await slot.settle?.();
    const started = performance.now();

    slot.fill(values);
    slot.hand(this.#step, GPT2_STEP.GPT2_STEP_STOP, GPT2_STEP.GPT2_STEP_STOP);
    for (let micro = 0; micro < accumulation; micro++) {
      const batch = nextBatch();
      checkBatch(this.model, activations, batch);
      slot.copy(batch, activations, micro);
      const exchanges = this.#exchange !== undefined && micro === accumulation - 1;
      const updates = micro === 0 && this.#owesUpdate;
      this.#microBatch({ accumulate: micro > 0, exchanges, updates }).run();
      if (updates) this.#owesUpdate = false;
      if (!device.captures) await device.finished();
    }
    // Behind the micro-batches: until then they are those of the step before, which an update that it left reads.
    slot.hand(this.#step, GPT2_STEP.GPT2_STEP_LEARNING_RATE, GPT2_STEP.GPT2_STEP_STOP - 1);
    this.#endOfStep.run();
    this.#owesUpdate = this.#defersUpdate;
    const finished = slot.take(this.#step);
    return { hostMilliseconds: performance.now() - started, finished };
  }
}

function checkSizes(options: TrainerOptions): void {
  for (const name of ['batch', 'sequence', 'accumulation'] as const) {
    const size = options[name];
    if (Number.isSafeInteger(size) && size > 0) continue;
    throw new ShapeError(`${name} must be a whole number of at least 1, not ${size}`);
  }
}

/** Rejects values with which the update would turn weights into NaN. */
function checkStep(index: number, learningRate: number): void {
  if (!Number.isSafeInteger(index) || index < 0) {
    throw new UsageError(`a step's index must be a whole number of at least 0, not ${index}`);
  }
  if (!Number.isFinite(learningRate)) {
    throw new UsageError(`the learning rate of step ${index} must be a finite number, not ${learningRate}`);
  }
}
