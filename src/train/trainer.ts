// One optimizer step: micro-batches forward and backward, the gradient norm, AdamW. Owns what training adds to a model:
// gradients, moments, and the step block through which step values go in and loss and norm come out. A GPU replays each of
// the three parts as a graph; tokens, step values and results are copied beside it, so that the host runs a step ahead.
import type { Batch } from '../batches/loader.ts';
import { backward } from '../model/backward.ts';
import { forward } from '../model/forward.ts';
import { headForwardBackward } from '../model/head.ts';
import type { Model } from '../model/model.ts';
import { ParameterArena } from '../model/parameters.ts';
import { GPT2_STEP, type Pointer } from '../native/bindings.generated.ts';
import { allocateTensor, type PinnedBuffer, type Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { adamw } from '../ops/adamw.ts';
import { lossSum } from '../ops/cross-entropy.ts';
import { globalNorm, globalNormScratch } from '../ops/global-norm.ts';

export interface TrainerOptions {
  /** Sequences in a micro-batch. */
  readonly batch: number;
  /** Tokens in a sequence. */
  readonly sequence: number;
  /** Micro-batches in a step. */
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

export interface StepResult {
  /** Mean loss over the step's tokens, before the update. */
  readonly loss: number;
  /** Gradient norm before clipping. */
  readonly norm: number;
  /** False if weights and moments are still what they were before the step; see UpdateLimits. */
  readonly updated: boolean;
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
  readonly m: ParameterArena;
  /** Second moments. */
  readonly v: ParameterArena;
  readonly gradients: ParameterArena;
  readonly #step: Tensor;
  readonly #firstMicroBatch: { run(): void };
  readonly #nextMicroBatch: { run(): void };
  readonly #update: { run(): void };
  readonly #slots: readonly Slot[];
  #begun = 0;

  constructor(model: Model, options: TrainerOptions) {
    const { device, config } = model;
    this.model = model;
    this.options = options;
    this.gradients = new ParameterArena(device, config, 'gradients', device.gradientType, 'fp32');
    this.m = new ParameterArena(device, config, 'moments', 'fp32', 'fp32');
    this.v = new ParameterArena(device, config, 'moments', 'fp32', 'fp32');
    this.#step = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
    const { matrices, vectors } = this.gradients;
    device.reserveWorkspace(globalNormScratch(device, { matrixCount: matrices.count, vectorCount: vectors.count }));
    this.#firstMicroBatch = device.program(() => this.#issueMicroBatch({ accumulate: false }));
    this.#nextMicroBatch = device.program(() => this.#issueMicroBatch({ accumulate: true }));
    this.#update = device.program(() => this.#issueUpdate());
    const tokens = options.batch * options.sequence * options.accumulation;
    this.#slots = [new Slot(device, tokens), new Slot(device, tokens)];
  }

  #issueMicroBatch({ accumulate }: { accumulate: boolean }): void {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { model } = this;
    const activations = model.activations.at(B, T);
    const scale = 1 / (B * T * accumulation);
    forward(model, activations);
    headForwardBackward(model, activations, this.gradients, { dloss: scale, accumulate });
    backward(model, activations, this.gradients, { accumulate });
    lossSum(model.device, { step: this.#step, losses: activations.model.losses, scale, accumulate });
  }

  #issueUpdate(): void {
    const { device, weights, masters } = this.model;
    const step = this.#step;
    const { matrices, vectors } = this.gradients;
    globalNorm(device, { step, matrices, vectors, maxNorm: this.options.gradientClip });
    for (const kind of ['matrices', 'vectors'] as const) {
      adamw(device, {
        weight: weights[kind],
        master: masters[kind],
        m: this.m[kind],
        v: this.v[kind],
        gradient: this.gradients[kind],
        step,
        beta1,
        beta2,
        eps,
        weightDecay: kind === 'matrices' ? this.options.weightDecay : 0,
      });
    }
  }

  /** Does step `index` (counted from 0) with the micro-batches that `nextBatch` gives. */
  async step(index: number, learningRate: number, nextBatch: () => Batch, limits?: UpdateLimits): Promise<StepResult> {
    const { finished } = await this.begin(index, learningRate, nextBatch, limits);
    return finished();
  }

  /**
   * Computes the gradients of a step's micro-batches again, without an update, op by op where `step` replays a graph: the
   * same bits. `onMicroBatch` is told before each.
   */
  async recompute(nextBatch: () => Batch, onMicroBatch: (index: number) => void): Promise<Omit<StepResult, 'updated'>> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device, activations } = this.model;
    const { tokens, targets } = activations.at(B, T).model;
    for (let micro = 0; micro < accumulation; micro++) {
      const batch = nextBatch();
      tokens.write(batch.inputs);
      targets.write(batch.targets);
      onMicroBatch(micro);
      this.#issueMicroBatch({ accumulate: micro > 0 });
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
   */
  async begin(
    index: number,
    learningRate: number,
    nextBatch: () => Batch,
    { loss = largestFloat, norm = largestFloat, afterUpdate = false }: UpdateLimits = {},
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
    const block = this.#step.pointer;
    device.call('copyToDeviceAsync', { destination: block, pinned: slot.pinned.at(0), bytes: slot.values.byteLength });
    for (let micro = 0; micro < accumulation; micro++) {
      const { inputs, targets: wanted } = nextBatch();
      slot.copy(inputs, tokens, 2 * micro);
      slot.copy(wanted, targets, 2 * micro + 1);
      (micro === 0 ? this.#firstMicroBatch : this.#nextMicroBatch).run();
      if (!device.captures) await device.finished();
    }
    this.#update.run();
    device.call('copyToHostAsync', {
      pinned: slot.pinned.at(resultsAt),
      source: block + BigInt(GPT2_STEP.GPT2_STEP_LOSS * 4),
      bytes: slot.results.byteLength,
    });
    device.record(slot.event);
    // Whoever comes first, the caller or the next step in this slot, keeps the result.
    let result: StepResult | undefined;
    const finished = async (): Promise<StepResult> => {
      if (!result) await device.reached(slot.event);
      if (!result) {
        result = { loss: slot.result('LOSS'), norm: slot.result('NORM'), updated: slot.result('UPDATED') !== 0 };
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
  /** The step block's first values. */
  readonly values: Float32Array;
  /** The step block's values from the loss on. */
  readonly results: Float32Array;
  /** Reads the result of the step that has the slot; undefined once that is done. */
  settle: (() => Promise<unknown>) | undefined;
  readonly #device: Device;

  /** @param tokens of all micro-batches */
  constructor(device: Device, tokens: number) {
    this.#device = device;
    this.event = device.createEvent();
    this.pinned = device.allocatePinned(tokensAt + 2 * tokens * Int32Array.BYTES_PER_ELEMENT);
    this.values = new Float32Array(this.pinned.memory, 0, GPT2_STEP.GPT2_STEP_AFTER_UPDATE + 1);
    const results = GPT2_STEP.GPT2_STEP_UPDATED - GPT2_STEP.GPT2_STEP_LOSS + 1;
    this.results = new Float32Array(this.pinned.memory, resultsAt, results);
  }

  result(name: 'LOSS' | 'NORM' | 'UPDATED'): number {
    return this.results[GPT2_STEP[`GPT2_STEP_${name}`] - GPT2_STEP.GPT2_STEP_LOSS]!;
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
