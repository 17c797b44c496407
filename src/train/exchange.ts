// What ranks tell each other in a step: gradients are summed, bucket by bucket, and so are loss and the wish to stop; updated
// weights return. With `sharing` (ZeRO-1) each rank gets the sums of its own parts alone, updates those, and all gather the
// weights; without, each updates everything.
//
// Gradients can be exchanged beside backward, each bucket as soon as it is whole, or behind it, all at once. Beside pays where
// copy engines carry them, and where the way between ranks is slow. Where NCCL carries them over NVLink it made no difference
// beyond what two runs differ by (benchmarks/h200-ranks.md): our matmuls deal their tiles to all SMs when they begin, so that
// one whose SMs NCCL holds for a moment ends that much later, and the rank that is ahead waits at every bucket, not once.
import type { Moments } from '../checkpoint/write.ts';
import { layersInBucket, type ParameterArena } from '../model/arena.ts';
import type { Model } from '../model/model.ts';
import type { Sharing } from '../model/shards.ts';
import { GPT2_STEP, type Pointer } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import { allocateShared, type Communicator } from '../native/communicator.ts';
import { allReduce, groupCollectives, joinCollectives, recordCollectives, reduceScatter } from '../ops/collectives.ts';

/** One call of AdamW, for what one weight decay holds of. */
export interface UpdatePart {
  readonly weight: Tensor;
  readonly master: Tensor;
  readonly m: Tensor;
  readonly v: Tensor;
  readonly gradient: Tensor;
}

export class Exchange {
  readonly communicator: Communicator;
  readonly #model: Model;
  readonly #gradients: ParameterArena;
  /** With `sharing`, this rank's parts of the gradients [communicator.parts, sharing.count]: rows whose sum the norm takes. */
  readonly #received: Tensor | undefined;
  readonly #besideBackward: boolean;

  constructor(model: Model, gradients: ParameterArena, communicator: Communicator, besideBackward: boolean) {
    const { device, sharing } = model;
    this.communicator = communicator;
    this.#besideBackward = besideBackward;
    this.#model = model;
    this.#gradients = gradients;
    if (!sharing) return;
    const shape = [communicator.parts, sharing.count];
    this.#received = allocateShared(communicator, 'received gradients', device.gradientType, shape);
    communicator.share(model.weights.matrices.buffer);
  }

  /** The gradients of a layer's matrices are whole, as are those of the layers after it. */
  readonly layerDone = (layer: number): void => {
    if (!this.#besideBackward) return;
    const together = layersInBucket(this.#model.config);
    if (layer % together === 0) this.#reduce(layer / together + 1);
  };

  /** All gradients are whole, and the loss is in the step block. What comes next runs behind the exchange. */
  microBatchDone(step: Tensor): void {
    const left = this.#besideBackward ? [0] : this.#gradients.layout.buckets.keys();
    groupCollectives(this.communicator, () => {
      for (const bucket of left) this.#reduce(bucket);
      allReduce(this.communicator, this.#gradients.vectors);
      allReduce(this.communicator, step.view([2], GPT2_STEP.GPT2_STEP_STOP));
    });
    this.join();
  }

  /** What the gradient norm is taken over. */
  get normed(): { matrices: Tensor; vectors: Tensor; communicator?: Communicator } {
    const { matrices, vectors } = this.#gradients;
    const { communicator } = this;
    return this.#received ? { matrices: this.#received, vectors, communicator } : { matrices, vectors };
  }

  /** What this rank updates of a bucket. */
  ownPart(sharing: Sharing, index: number, { m, v }: Moments): UpdatePart {
    const { weights, masters } = this.#model;
    const { count, inArena, inParts } = sharing.partOf(sharing.layout.buckets[index]!);
    const own = (parts: Tensor) => parts.view([count], inParts);
    const weight = weights.matrices.view([count], inArena);
    return {
      weight,
      master: masters === weights ? weight : own(masters.matrices),
      m: own(m.matrices),
      v: own(v.matrices),
      gradient: own(this.#received!),
    };
  }

  /** Every rank gets what the others have updated of a bucket, beside what comes next. */
  spread(sharing: Sharing, index: number): void {
    sharing.spread(this.#model.weights.matrices, sharing.layout.buckets[index]!);
  }

  /** Puts an event behind what was exchanged so far, for what has to run behind it. */
  record(event: Pointer): void {
    recordCollectives(this.communicator, event);
  }

  /** What comes next runs behind all that was exchanged so far. */
  join(): void {
    joinCollectives(this.communicator);
  }

  #reduce(index: number): void {
    const { sharing } = this.#model;
    const { matrices, layout } = this.#gradients;
    const { start, count } = layout.buckets[index]!;
    const bucket = matrices.view([count], start);
    if (!sharing) {
      allReduce(this.communicator, bucket);
      return;
    }
    const { inParts } = sharing.partOf(sharing.layout.buckets[index]!);
    reduceScatter(this.communicator, { out: this.#received!, start: inParts, in: bucket });
  }
}
