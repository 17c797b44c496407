// One optimizer step: micro-batches forward and backward, the gradient norm, AdamW. Owns what training adds to a model:
// gradients, moments, and the step block through which step values go in and loss and norm come out. A GPU replays each of
// the three parts as a graph; tokens, step values and results are copied beside it, so that the host runs a step ahead.
import type { Batch } from '../batches/loader.ts';
import { backward } from '../model/backward.ts';
import { forward } from '../model/forward.ts';
import { headForwardBackward } from '../model/head.ts';
import { fp32Copy, type Model } from '../model/model.ts';
import { ParameterArena, type ParameterCopy } from '../model/parameters.ts';
import { GPT2_STEP, type Pointer } from '../native/bindings.generated.ts';
import { allocateTensor, type PinnedBuffer, type Tensor } from '../native/buffer.ts';
import type { Communicator } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { adamw } from '../ops/adamw.ts';
import { lossSum } from '../ops/cross-entropy.ts';
import { globalNorm, globalNormScratch } from '../ops/global-norm.ts';
import { Exchange } from './exchange.ts';

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
}

const beta1 = 0.9;
const beta2 = 0.95;
const eps = 1e-8;

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

/** One call of AdamW, for what one weight decay holds of. */
export interface Update {
  readonly weight: Tensor;
  readonly master: Tensor;
  readonly m: Tensor;
  readonly v: Tensor;
  readonly gradient: Tensor;
  /** Issued behind it. */
  readonly done?: () => void;
}

export interface StepResult {
  /** Mean loss over the step's tokens, before the update. */
  readonly loss: number;
  /** Gradient norm before clipping. */
  readonly norm: number;
  /** False if weights and moments are still what they were before the step; see UpdateLimits. */
  readonly updated: boolean;
  /** Whether any of several ranks was asked to stop when it began the step. */
  readonly stops: boolean;
}

/** A step that was issued. */
export interface BegunStep {
  /** How long the program was busy issuing it. */
  readonly hostMilliseconds: number;
  /** Waits until the step is done, without blocking the event loop. */
  finished(): Promise<StepResult>;
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
  /** By `accumulate` and `exchanges`. */
  readonly #microBatches: readonly (readonly { run(): void }[])[];
  readonly #update: { run(): void };
  readonly #slots: readonly Slot[];
  #begun = 0;

  /** @param communicator with the ranks that a step is spread over, each with micro-batches of its own */
  constructor(model: Model, options: TrainerOptions, communicator?: Communicator) {
    const { device, config, sharing } = model;
    this.model = model;
    this.options = options;
    const { gradientType } = device;
    this.gradients = new ParameterArena(device, config, 'gradients', gradientType, 'fp32', sharing?.communicator.ranks);
    this.m = fp32Copy(device, config, 'moments', sharing);
    this.v = fp32Copy(device, config, 'moments', sharing);
    if (communicator) this.#exchange = new Exchange(model, this.gradients, communicator);
    this.#step = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
    const { matrices, vectors } = this.gradients;
    device.reserveWorkspace(globalNormScratch(device, { matrixCount: matrices.count, vectorCount: vectors.count }));
    this.#microBatches = [false, true].map((accumulate) =>
      [false, true].map((exchanges) => device.program(() => this.#issueMicroBatch({ accumulate, exchanges }))),
    );
    this.#update = device.program(() => this.#issueUpdate());
    const tokens = options.batch * options.sequence * options.accumulation;
    this.#slots = [new Slot(device, tokens), new Slot(device, tokens)];
  }

  #issueMicroBatch({ accumulate, exchanges }: { accumulate: boolean; exchanges: boolean }): void {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { model } = this;
    const activations = model.activations.at(B, T);
    // Of all ranks, whose gradients and losses are summed.
    const scale = 1 / (B * T * accumulation * (this.#exchange?.communicator.ranks ?? 1));
    const exchange = exchanges ? this.#exchange : undefined;
    forward(model, activations);
    headForwardBackward(model, activations, this.gradients, { dloss: scale, accumulate });
    backward(model, activations, this.gradients, { accumulate, layerDone: exchange?.layerDone });
    lossSum(model.device, { step: this.#step, losses: activations.model.losses, scale, accumulate });
    exchange?.microBatchDone(this.#step);
  }

  #issueUpdate(): void {
    const { device, weights, masters } = this.model;
    const { weightDecay, gradientClip } = this.options;
    const step = this.#step;
    globalNorm(device, { step, ...(this.#exchange?.normed ?? this.gradients), maxNorm: gradientClip });
    const update = ({ done, ...tensors }: Update, decay: number) => {
      adamw(device, { ...tensors, step, beta1, beta2, eps, weightDecay: decay });
      done?.();
    };
    const all = (kind: 'matrices' | 'vectors'): Update => ({
      weight: weights[kind],
      master: masters[kind],
      m: this.m[kind],
      v: this.v[kind],
      gradient: this.gradients[kind],
    });
    for (const each of this.#exchange?.updates(this) ?? [all('matrices')]) update(each, weightDecay);
    update(all('vectors'), 0);
    this.#exchange?.updateDone();
  }

  /** Does step `index` (counted from 0) with the micro-batches that `nextBatch` gives. */
  async step(index: number, learningRate: number, nextBatch: () => Batch, limits?: UpdateLimits): Promise<StepResult> {
    const { finished } = await this.begin(index, learningRate, nextBatch, limits);
    return finished();
  }

  /**
   * Computes the gradients of a step's micro-batches again, without an update, op by op where `step` replays a graph: the
   * same bits. Of several ranks each computes its own. `onMicroBatch` is told before each.
   */
  async recompute(
    nextBatch: () => Batch,
    onMicroBatch: (index: number) => void,
  ): Promise<Pick<StepResult, 'loss' | 'norm'>> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device, activations } = this.model;
    const { tokens, targets } = activations.at(B, T).model;
    for (let micro = 0; micro < accumulation; micro++) {
      const batch = nextBatch();
      tokens.write(batch.inputs);
      targets.write(batch.targets);
      onMicroBatch(micro);
      this.#issueMicroBatch({ accumulate: micro > 0, exchanges: false });
      await device.finished();
    }
    const { matrices, vectors } = this.gradients;
    globalNorm(device, { step: this.#step, matrices, vectors, maxNorm: this.options.gradientClip });
    const block = this.#step.readInto(new Float32Array(GPT2_STEP.GPT2_STEP_SIZE));
    return { loss: block[GPT2_STEP.GPT2_STEP_LOSS]!, norm: block[GPT2_STEP.GPT2_STEP_NORM]! };
  }

  /**
   * Issues step `index` and returns while a GPU still works on it, so that the next can be issued before its result is read;
   * on the CPU it is then done. Two steps may be under way; a third waits for the first. Signals and timers get their turn
   * between micro-batches.
   * @param stops whether this rank was asked to stop: every rank then finds it in the step's result
   */
  async begin(
    index: number,
    learningRate: number,
    nextBatch: () => Batch,
    { loss = largestFloat, norm = largestFloat, afterUpdate = false }: UpdateLimits = {},
    stops = false,
  ): Promise<BegunStep> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device, activations } = this.model;
    const { tokens, targets } = activations.at(B, T).model;
    const slot = this.#slots[this.#begun++ % this.#slots.length]!;
    await slot.settle?.();
    const started = performance.now();

    slot.values[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
    slot.values[GPT2_STEP.GPT2_STEP_BETA1_CORRECTION] = 1 - beta1 ** (index + 1);
    slot.values[GPT2_STEP.GPT2_STEP_BETA2_CORRECTION] = 1 - beta2 ** (index + 1);
    slot.values[GPT2_STEP.GPT2_STEP_LOSS_LIMIT] = loss;
    slot.values[GPT2_STEP.GPT2_STEP_NORM_LIMIT] = norm;
    slot.values[GPT2_STEP.GPT2_STEP_AFTER_UPDATE] = afterUpdate ? 1 : 0;
    slot.values[GPT2_STEP.GPT2_STEP_STOP] = stops ? 1 : 0;
    const block = this.#step.pointer;
    device.call('copyToDeviceAsync', { destination: block, pinned: slot.pinned.at(0), bytes: slot.values.byteLength });
    for (let micro = 0; micro < accumulation; micro++) {
      const { inputs, targets: wanted } = nextBatch();
      slot.copy(inputs, tokens, 2 * micro);
      slot.copy(wanted, targets, 2 * micro + 1);
      const exchanges = this.#exchange !== undefined && micro === accumulation - 1;
      this.#microBatches[Number(micro > 0)]![Number(exchanges)]!.run();
      if (!device.captures) await device.finished();
    }
    this.#update.run();
    device.call('copyToHostAsync', {
      pinned: slot.pinned.at(resultsAt),
      source: block + BigInt(GPT2_STEP.GPT2_STEP_STOP * 4),
      bytes: slot.results.byteLength,
    });
    device.record(slot.event);
    // Whoever comes first, the caller or the next step in this slot, keeps the result.
    let result: StepResult | undefined;
    const finished = async (): Promise<StepResult> => {
      if (!result) await device.reached(slot.event);
      if (!result) {
        result = {
          loss: slot.result('LOSS'),
          norm: slot.result('NORM'),
          updated: slot.result('UPDATED') !== 0,
          stops: slot.result('STOP') !== 0,
        };
        slot.settle = undefined;
      }
      return result;
    };
    slot.settle = finished;
    return { hostMilliseconds: performance.now() - started, finished };
  }
}

/** Where a slot keeps results, and the tokens behind them, in bytes. */
const resultsAt = 64;
const tokensAt = 128;

/** What a step under way hands to the device and gets from it, in page-locked memory. */
class Slot {
  readonly event: Pointer;
  readonly pinned: PinnedBuffer;
  /** The step block's first values, up to the wish to stop. */
  readonly values: Float32Array;
  /** The step block's values from that on. */
  readonly results: Float32Array;
  /** Reads the result of the step that has the slot; undefined once that is done. */
  settle: (() => Promise<unknown>) | undefined;
  readonly #device: Device;

  /** @param tokens of all micro-batches */
  constructor(device: Device, tokens: number) {
    this.#device = device;
    this.event = device.createEvent();
    this.pinned = device.allocatePinned(tokensAt + 2 * tokens * Int32Array.BYTES_PER_ELEMENT);
    this.values = new Float32Array(this.pinned.memory, 0, GPT2_STEP.GPT2_STEP_STOP + 1);
    const results = GPT2_STEP.GPT2_STEP_UPDATED - GPT2_STEP.GPT2_STEP_STOP + 1;
    this.results = new Float32Array(this.pinned.memory, resultsAt, results);
  }

  result(name: 'STOP' | 'LOSS' | 'NORM' | 'UPDATED'): number {
    return this.results[GPT2_STEP[`GPT2_STEP_${name}`] - GPT2_STEP.GPT2_STEP_STOP]!;
  }

  /** Copies the `index`-th array of tokens to the device, behind what was issued before. */
  copy(source: Int32Array, destination: Tensor, index: number): void {
    const offset = tokensAt + index * source.byteLength;
    new Int32Array(this.pinned.memory, offset, source.length).set(source);
    this.#device.call('copyToDeviceAsync', {
      destination: destination.pointer,
      pinned: this.pinned.at(offset),
      bytes: source.byteLength,
    });
  }
}
