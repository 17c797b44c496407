// Updates all parameters by their optimizers. With ZeRO-1 each rank updates its share of every bucket, in the order in which a
// forward pass reads them: a bucket's weights are gathered while the next buckets are updated and the next forward pass begins.
import { bucketFrom, type ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import type { Sharding } from '../../model/sharded-parameters.ts';
import type { Pointer } from '../../native/bindings.generated.ts';
import type { Tensor } from '../../native/tensor.ts';
import { joinCollectives, recordCollectives } from '../../ops/collectives.ts';
import type { OptimizerState } from '../../optimizer/state.ts';
import type { GradientSync } from './gradient-sync.ts';

interface UpdateInputs {
  readonly model: Model;
  readonly gradients: ParameterArena;
  readonly optimizerState: OptimizerState;
  readonly step: Tensor;
}

export class Update {
  readonly #inputs: UpdateInputs;
  /** Undefined without ZeRO-1. */
  readonly #zero: { readonly sharding: Sharding; readonly gradientSync: GradientSync } | undefined;
  /** One event for each bucket, reached when the bucket's weights are gathered. */
  #events: readonly Pointer[] | undefined;

  constructor(inputs: UpdateInputs, gradientSync: GradientSync | undefined) {
    const { sharding } = inputs.model;
    this.#inputs = inputs;
    this.#zero = sharding && gradientSync && { sharding, gradientSync };
  }

  /** Enqueues the whole update; work enqueued later runs after it. */
  enqueue(): void {
    this.#enqueue();
    if (this.#zero) joinCollectives(this.#zero.sharding.communicator);
  }

  /**
   * Enqueues the update before a forward pass, which may begin when the embeddings are gathered. To wait for the weights, the
   * forward pass calls the returned function before each layer, in order, and before the head, with the number of layers.
   */
  enqueueForForward(): (layer: number) => void {
    const { model, gradients } = this.#inputs;
    const { device } = model;
    if (!this.#zero) {
      this.#enqueue();
      return () => {};
    }
    this.#events ??= gradients.layout.buckets.map(() => device.createEvent());
    const events = this.#events;
    this.#enqueue(events);
    device.startAfter(events[0]!);
    return (layer) => {
      const bucket = bucketFrom(gradients.layout, layer);
      if (bucket !== undefined) device.startAfter(events[bucket]!);
    };
  }

  #enqueue(events?: readonly Pointer[]): void {
    const { model, gradients, optimizerState, step } = this.#inputs;
    optimizerState.enqueue(step, 'vector', gradients.vectors);
    if (!this.#zero) {
      optimizerState.enqueue(step, 'matrix', gradients.matrices);
      return;
    }
    const { sharding, gradientSync } = this.#zero;
    for (const [index, bucket] of sharding.layout.buckets.entries()) {
      const { count, inArena: start, inParts } = sharding.partOf(bucket);
      optimizerState.enqueue(step, 'matrix', gradientSync.ownGradients, { start, count, inParts });
      // Concurrently with work enqueued later.
      sharding.allGatherInto(model.weights.matrices, bucket);
      if (events) recordCollectives(sharding.communicator, events[index]!);
    }
  }
}
