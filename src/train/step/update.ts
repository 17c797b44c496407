// Updates all parameters by their optimizers. With ZeRO-1 each rank updates its share of every bucket, in the order in which a
// forward pass reads them: a bucket's weights are gathered while the next buckets are updated and the next forward pass begins.
import { bucketFrom, type ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import type { Pointer } from '../../native/bindings.generated.ts';
import type { Tensor } from '../../native/tensor.ts';
import { joinCollectives, recordCollectives } from '../../ops/collectives.ts';
import type { OptimizerState } from '../../optimizer/state.ts';
import type { GradientSync } from './gradient-sync.ts';

/** @param gradientSync sums the gradients of several ranks */
export function updateOf(
  model: Model,
  gradients: ParameterArena,
  optimizerState: OptimizerState,
  step: Tensor,
  gradientSync: GradientSync | undefined,
) {
  const { device, weights, sharding } = model;
  const own = gradientSync?.ownGradients;
  /** One event for each bucket, reached when the bucket's weights are gathered. */
  let events: readonly Pointer[] | undefined;
  const enqueue = (reached?: readonly Pointer[]): void => {
    optimizerState.enqueue(step, 'vector', gradients.vectors);
    if (!sharding || !own) {
      optimizerState.enqueue(step, 'matrix', gradients.matrices);
      return;
    }
    for (const [index, bucket] of sharding.layout.buckets.entries()) {
      const { count, inArena: start, inParts } = sharding.partOf(bucket);
      optimizerState.enqueue(step, 'matrix', own, { start, count, inParts });
      // Concurrently with work enqueued later.
      sharding.allGatherInto(weights.matrices, bucket);
      if (reached) recordCollectives(sharding.communicator, reached[index]!);
    }
  };
  return {
    /** Enqueues the whole update; work enqueued later runs after it. */
    enqueue(): void {
      enqueue();
      if (sharding && own) joinCollectives(sharding.communicator);
    },
    /**
     * Enqueues the update before a forward pass, which may begin when the embeddings are gathered. To wait for the weights, the
     * forward pass calls the returned function before each layer, in order, and before the head, with the number of layers.
     */
    enqueueForForward(): (layer: number) => void {
      if (!own) {
        enqueue();
        return () => {};
      }
      events ??= gradients.layout.buckets.map(() => device.createEvent());
      const reached = events;
      enqueue(reached);
      device.startAfter(reached[0]!);
      return (layer) => {
        const bucket = bucketFrom(gradients.layout, layer);
        if (bucket !== undefined) device.startAfter(reached[bucket]!);
      };
    },
  };
}
