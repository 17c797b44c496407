// Sums gradients over ranks, bucket by bucket, with the loss, the number of targets and the requests to stop, and gathers updated weights. With ZeRO-1
// (`model.sharding`) each rank receives the gradient sums of its share, updates the share, and all ranks gather the weights;
// without ZeRO-1 each rank updates everything.
//
// Gradients are summed concurrently with backward, each bucket as soon as it is complete, or all at once after backward. The
// first is faster with copy engines and over slow links. With NCCL over NVLink the difference was no larger than between two
// equal runs (benchmarks/h200-ranks.md): our matmuls assign their tiles to all SMs when they begin, so a matmul whose SMs NCCL
// holds for a moment ends that much later, and the rank that is ahead waits at every bucket, not once.
import { bucketFrom, type ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import { GPT2_STEP } from '../../native/bindings.generated.ts';
import { allocateShared, type Communicator } from '../../native/communicator.ts';
import type { Tensor } from '../../native/tensor.ts';
import { allReduce, groupCollectives, joinCollectives, reduceScatter } from '../../ops/collectives.ts';

/** Gradients whose norm is computed; with a communicator, together with the gradients of the other ranks. */
export interface NormInputs {
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly communicator?: Communicator;
}

export class GradientSync {
  readonly communicator: Communicator;
  readonly #model: Model;
  readonly #gradients: ParameterArena;
  /**
   * With `sharding`, this rank's gradients as received [communicator.parts, sharding.count]. The norm adds all rows into the
   * first.
   */
  readonly #received: Tensor | undefined;
  readonly #overlapsBackward: boolean;

  constructor(model: Model, gradients: ParameterArena, communicator: Communicator, overlapsBackward: boolean) {
    const { device, sharding } = model;
    this.communicator = communicator;
    this.#overlapsBackward = overlapsBackward;
    this.#model = model;
    this.#gradients = gradients;
    if (!sharding) return;
    const shape = [communicator.parts, sharding.count];
    this.#received = allocateShared(communicator, 'received gradients', device.gradientType, shape);
    communicator.share(model.weights.matrices.buffer);
  }

  /** Must be called when the gradients of a layer's matrices, and of all later layers, are complete. */
  readonly layerDone = (layer: number): void => {
    if (!this.#overlapsBackward) return;
    const { layers } = this.#model.config;
    // The last layer is the first whose gradients are complete, except for the head's, which are complete before.
    for (const complete of layer === layers - 1 ? [layers, layer] : [layer]) {
      const bucket = bucketFrom(this.#gradients.layout, complete);
      if (bucket !== undefined) this.#reduce(bucket);
    }
  };

  /** Must be called when all gradients and the loss are complete. Work enqueued later runs after the sums. */
  microBatchDone(step: Tensor): void {
    const left = this.#overlapsBackward ? [0] : this.#gradients.layout.buckets.keys();
    groupCollectives(this.communicator, () => {
      for (const bucket of left) this.#reduce(bucket);
      allReduce(this.communicator, this.#gradients.vectors);
      allReduce(this.communicator, step.view([4], GPT2_STEP.GPT2_STEP_TARGETS));
    });
    joinCollectives(this.communicator);
  }

  get normInputs(): NormInputs {
    const { matrices, vectors } = this.#gradients;
    const { communicator } = this;
    return this.#received ? { matrices: this.#received, vectors, communicator } : { matrices, vectors };
  }

  /** The gradient sums of this rank's share, [sharding.count]. */
  get ownGradients(): Tensor {
    const { sharding } = this.#model;
    return this.#received!.view([sharding!.count]);
  }

  #reduce(index: number): void {
    const { sharding } = this.#model;
    const { matrices, layout } = this.#gradients;
    const { start, count } = layout.buckets[index]!;
    const bucket = matrices.view([count], start);
    if (!sharding) {
      allReduce(this.communicator, bucket);
      return;
    }
    const { inParts } = sharding.partOf(sharding.layout.buckets[index]!);
    reduceScatter(this.communicator, { out: this.#received!, start: inParts, in: bucket });
  }
}
