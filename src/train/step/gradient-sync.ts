// Sums gradients over ranks, bucket by bucket, together with the loss, the number of targets and the requests to stop. With ZeRO-1
// (`model.sharding`) each rank receives the gradient sums of its share only, and updates only its share; then all ranks gather the
// weights (step-ops.ts). Without ZeRO-1 each rank updates all weights.
//
// A bucket is summed during backward, as soon as its gradients are complete, or after backward with all buckets. Summing during
// backward is faster with copy engines and over slow links. With NCCL over NVLink the difference was no larger than between two
// equal runs (benchmarks/h200-ranks.md): a matmul assigns its tiles to all SMs when it begins, so it ends later if NCCL holds some
// SMs for a moment, and the rank that is ahead waits at every bucket instead of once.
import { bucketFrom, type ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { allocateShared, type Communicator } from '../../native/communicator.ts';
import type { Tensor } from '../../native/tensor.ts';
import { allReduce, groupCollectives, joinCollectives, reduceScatter } from '../../ops/collectives.ts';

/** Gradients whose norm is computed; with a communicator, the norm also covers the gradients of other ranks. */
export interface NormInputs {
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly communicator?: Communicator;
}

export type GradientSync = ReturnType<typeof gradientSyncOf>;

export function gradientSyncOf(
  model: Model,
  gradients: ParameterArena,
  communicator: Communicator,
  overlapsBackward: boolean,
) {
  const { device, sharding, config, weights } = model;
  const { matrices, vectors, layout } = gradients;
  // With ZeRO-1, `received` [parts, count] holds the gradients of this rank's share. The norm op adds all rows into the first row.
  const shape = [communicator.parts, sharding?.count ?? 0];
  const received = sharding && allocateShared(communicator, 'received gradients', device.gradientType, shape);
  if (sharding) communicator.share(weights.matrices.buffer);
  const normInputs: NormInputs = received ? { matrices: received, vectors, communicator } : gradients;
  const reduce = (index: number): void => {
    const { start, count } = layout.buckets[index]!;
    const bucket = matrices.view([count], start);
    if (!sharding) {
      allReduce(communicator, bucket);
      return;
    }
    const { inParts } = sharding.partOf(sharding.layout.buckets[index]!);
    reduceScatter(communicator, { out: received!, start: inParts, in: bucket });
  };
  return {
    /** Sums the bucket that `layer` completes, if any. Call when the matrix gradients of `layer` and all later layers are complete. */
    layerDone(layer: number): void {
      if (!overlapsBackward) return;
      const { layers } = config;
      // The head's gradients (index `layers`) are complete before the last layer's, and are summed at the same time.
      for (const complete of layer === layers - 1 ? [layers, layer] : [layer]) {
        const bucket = bucketFrom(layout, complete);
        if (bucket !== undefined) reduce(bucket);
      }
    },
    /** Sums all buckets and values not summed yet. Call when all gradients and the loss are complete. Later work runs after the sums. */
    microBatchDone(step: Tensor): void {
      groupCollectives(communicator, () => {
        for (const bucket of overlapsBackward ? [0] : layout.buckets.keys()) reduce(bucket);
        allReduce(communicator, vectors);
        allReduce(communicator, step.view([4], GPT2_STEP.GPT2_STEP_TARGETS));
      });
      joinCollectives(communicator);
    },
    normInputs,
    /** The gradient sums of this rank's share, [sharding.count]. */
    ownGradients: received?.view([sharding!.count]),
  };
}
