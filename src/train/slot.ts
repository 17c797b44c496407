// Page-locked memory through which a step passes values and tokens to the device, and receives results. A trainer has two
// slots, so that it can issue a step while the one before runs on the device.
import type { Batch } from '../batches/loader.ts';
import type { ActivationSet } from '../model/activations.ts';
import { GPT2_STEP, type Pointer } from '../native/bindings.generated.ts';
import type { PinnedBuffer, Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';

/** Values that the host writes into the step block. */
export interface StepValues {
  readonly learningRate: number;
  /** The optimizers' own, from GPT2_STEP_SCALARS on. */
  readonly scalars: readonly number[];
  /** As UpdateLimits. */
  readonly loss: number;
  readonly norm: number;
  readonly afterUpdate: boolean;
  readonly stops: boolean;
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

/** Byte offsets of a slot's results, and of the tokens after them. */
const resultsAt = 64;
const tokensAt = 128;

export class Slot {
  /** Reads the result of the step that has the slot; undefined once it has been read. */
  settle: (() => Promise<StepResult>) | undefined;
  readonly #device: Device;
  readonly #event: Pointer;
  readonly #pinned: PinnedBuffer;

  /** @param tokens in all micro-batches together */
  constructor(device: Device, tokens: number) {
    this.#device = device;
    this.#event = device.createEvent();
    this.#pinned = device.allocatePinned(tokensAt + 2 * tokens * Int32Array.BYTES_PER_ELEMENT);
  }

  /** Stores the step's values for `hand` to copy. */
  fill({ learningRate, scalars, loss, norm, afterUpdate, stops }: StepValues): void {
    const values = new Float32Array(this.#pinned.memory, 0, GPT2_STEP.GPT2_STEP_STOP + 1);
    values[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
    values[GPT2_STEP.GPT2_STEP_LOSS_LIMIT] = loss;
    values[GPT2_STEP.GPT2_STEP_NORM_LIMIT] = norm;
    values[GPT2_STEP.GPT2_STEP_AFTER_UPDATE] = afterUpdate ? 1 : 0;
    values.set(scalars, GPT2_STEP.GPT2_STEP_SCALARS);
    values[GPT2_STEP.GPT2_STEP_STOP] = stops ? 1 : 0;
  }

  /** Copies the values `from` to `to` into the step block, after all work issued so far. */
  hand(block: Tensor, from: number, to: number): void {
    const [start, end] = [from * 4, (to + 1) * 4];
    const destination = block.pointer + BigInt(start);
    this.#device.call('copyToDeviceAsync', { destination, pinned: this.#pinned.at(start), bytes: end - start });
  }

  /** Copies the step's `micro`-th batch to the device, after all work issued so far. */
  copy(batch: Batch, { model }: ActivationSet, micro: number): void {
    this.#copyTokens(batch.inputs, model.tokens, 2 * micro);
    this.#copyTokens(batch.targets, model.targets, 2 * micro + 1);
  }

  #copyTokens(source: Int32Array, destination: Tensor, index: number): void {
    const offset = tokensAt + index * source.byteLength;
    new Int32Array(this.#pinned.memory, offset, source.length).set(source);
    this.#device.call('copyToDeviceAsync', {
      destination: destination.pointer,
      pinned: this.#pinned.at(offset),
      bytes: source.byteLength,
    });
  }

  /** Issues the copy of the step block's results to the host. The returned function waits for them and gives them. */
  take(block: Tensor): () => Promise<StepResult> {
    const device = this.#device;
    const first = GPT2_STEP.GPT2_STEP_STOP;
    const count = GPT2_STEP.GPT2_STEP_UPDATED - first + 1;
    device.call('copyToHostAsync', {
      pinned: this.#pinned.at(resultsAt),
      source: block.pointer + BigInt(first * 4),
      bytes: count * 4,
    });
    device.record(this.#event);
    let result: StepResult | undefined;
    this.settle = async () => {
      if (!result) await device.reached(this.#event);
      if (!result) {
        const values = new Float32Array(this.#pinned.memory, resultsAt, count);
        const at = (index: number): number => values[index - first]!;
        result = {
          loss: at(GPT2_STEP.GPT2_STEP_LOSS),
          norm: at(GPT2_STEP.GPT2_STEP_NORM),
          updated: at(GPT2_STEP.GPT2_STEP_UPDATED) !== 0,
          stops: at(GPT2_STEP.GPT2_STEP_STOP) !== 0,
        };
        this.settle = undefined;
      }
      return result;
    };
    return this.settle;
  }
}
