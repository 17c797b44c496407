// Copies a step's values and tokens to the device, and its results back, through buffers of page-locked memory. A trainer has two
// buffers, so that it can enqueue a step while the device works on the previous one.
import { lazily } from '../../base/lazily.ts';
import type { uploadsOf } from '../../data/batches/batch.ts';
import { GPT2_STEP, type Pointer } from '../../native/bindings.generated.ts';
import type { Device } from '../../native/device.ts';
import type { Tensor } from '../../native/tensor.ts';

/**
 * Limits within which a step updates weights and optimizer state. The device compares, because a step may run before the host has
 * read the previous step's result.
 */
export interface UpdateLimits {
  /** The step updates nothing if its loss is above this limit, or not finite. Default: no limit. */
  readonly loss?: number | undefined;
  /** The step updates nothing if its gradient norm is above this limit, or not finite. Default: no limit. */
  readonly norm?: number | undefined;
  /** Whether the step updates nothing if the previous step updated nothing. Default false. */
  readonly afterUpdate?: boolean | undefined;
}

/** Values that the host writes into the step block. */
interface StepValues extends Required<UpdateLimits> {
  readonly learningRate: number;
  /** The optimizers' scalars for this step, stored from index GPT2_STEP_SCALARS of the step block. */
  readonly scalars: readonly number[];
  readonly requests: Requests;
}

/** Requests that every rank follows after reading the step's result. */
export interface Requests {
  readonly stops: boolean;
  /** Whether to save; only rank 0 requests a save. */
  readonly saves: boolean;
}

/** The value (fp32) of a request to save in a sum over ranks, where each request to stop adds 1: more than the number of ranks. */
const saveRequest = 2 ** 20;

export interface StepResult {
  /** Mean loss over the step's targets that are not -1, before the update. */
  readonly loss: number;
  /** Number of targets that are not -1, of all ranks. */
  readonly targets: number;
  /** Gradient norm before clipping. */
  readonly norm: number;
  /** Number of tokens whose FP8 gradient may have saturated in the head. */
  readonly saturated: number;
  /** False if the step left weights and optimizer state unchanged; see UpdateLimits. */
  readonly updated: boolean;
  /** The requests of all ranks when they began the step. */
  readonly requests: Requests;
}

/** Byte offsets in a staging buffer: of a step's results, and of the tokens after the results. */
const resultsAt = 64;
const tokensAt = 128;

export type StagingBuffer = ReturnType<typeof stagingBufferOf>;

/** @param values number of int32 that `uploadBatch` copies, in all micro-batches together */
export function stagingBufferOf(device: Device, values: number) {
  const event = device.createEvent();
  const pinned = device.allocatePinned(tokensAt + values * Int32Array.BYTES_PER_ELEMENT);
  const upload = (destination: Pointer, offset: number, bytes: number): void =>
    device.call('copyToDeviceAsync', { destination, pinned: pinned.at(offset), bytes });
  const staging = {
    /** Waits for the results of the step that uses the buffer; undefined once the results have been read. */
    pending: undefined as (() => Promise<StepResult>) | undefined,

    setValues({ learningRate, scalars, loss, norm, afterUpdate, requests }: StepValues): void {
      const values = new Float32Array(pinned.memory, 0, GPT2_STEP.GPT2_STEP_STOP + 1);
      values[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
      values[GPT2_STEP.GPT2_STEP_LOSS_LIMIT] = loss;
      values[GPT2_STEP.GPT2_STEP_NORM_LIMIT] = norm;
      values[GPT2_STEP.GPT2_STEP_AFTER_UPDATE] = afterUpdate ? 1 : 0;
      values.set(scalars, GPT2_STEP.GPT2_STEP_SCALARS);
      values[GPT2_STEP.GPT2_STEP_STOP] = (requests.stops ? 1 : 0) + (requests.saves ? saveRequest : 0);
    },

    /** Stores the number of targets that are not -1, for `uploadValues`. */
    setTargets(targets: number): void {
      new Float32Array(pinned.memory)[GPT2_STEP.GPT2_STEP_TARGETS] = targets;
    },

    /** Enqueues the copy of values `from` to `to` (inclusive) to the same indices of the step block on the device. */
    uploadValues(block: Tensor, from: number, to: number): void {
      upload(block.pointer + BigInt(from * 4), from * 4, (to + 1 - from) * 4);
    },

    /** Enqueues the copy of micro-batch `micro` (its tensors and int32 values, from `uploadsOf`) to the device. */
    uploadBatch(uploads: ReturnType<typeof uploadsOf>, micro: number): void {
      for (const [index, [{ pointer }, values]] of uploads.entries()) {
        const offset = tokensAt + (micro * uploads.length + index) * values.byteLength;
        new Int32Array(pinned.memory, offset, values.length).set(values);
        upload(pointer, offset, values.byteLength);
      }
    },

    /** Enqueues the copy of the step block's results to the host, and returns a function that waits for them. */
    downloadResult(block: Tensor): () => Promise<StepResult> {
      const first = GPT2_STEP.GPT2_STEP_TARGETS;
      const count = GPT2_STEP.GPT2_STEP_UPDATED - first + 1;
      const source = block.pointer + BigInt(first * 4);
      device.call('copyToHostAsync', { pinned: pinned.at(resultsAt), source, bytes: count * 4 });
      device.record(event);
      staging.pending = lazily(async () => {
        await device.reached(event);
        staging.pending = undefined;
        const results = new Float32Array(pinned.memory, resultsAt, count);
        const at = (index: number): number => results[index - first]!;
        const asked = at(GPT2_STEP.GPT2_STEP_STOP);
        return {
          loss: at(GPT2_STEP.GPT2_STEP_LOSS),
          targets: at(GPT2_STEP.GPT2_STEP_TARGETS),
          norm: at(GPT2_STEP.GPT2_STEP_NORM),
          saturated: at(GPT2_STEP.GPT2_STEP_SATURATED),
          updated: at(GPT2_STEP.GPT2_STEP_UPDATED) !== 0,
          requests: { stops: asked % saveRequest !== 0, saves: asked >= saveRequest },
        };
      });
      return staging.pending;
    },
  };
  return staging;
}
