// What ranks tell each other in a step: gradients are summed as soon as backward is done with them, bucket by bucket and beside
// what it does next; loss and the wish to stop likewise; and updated weights return. With `sharing` (ZeRO-1) each rank
// gets the sums of its own parts alone, updates those, and all gather the weights; without, each updates everything.

import type { Moments } from '../checkpoint/write.ts';
import type { Model } from '../model/model.ts';
import { layersInBucket, type ParameterArena } from '../model/parameters.ts';
import { GPT2_STEP } from '../native/bindings.generated.ts';
import { allocateTensor, type Tensor } from '../native/buffer.ts';
import type { Communicator } from '../native/communicator.ts';
import { allReduce, joinCollectives, reduceScatter } from '../ops/collectives.ts';

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
  /** With `sharing`, the sums of this rank's parts of the gradients. */
  readonly #sums: Tensor | undefined;

  constructor(model: Model, gradients: ParameterArena, communicator: Communicator) {
    const { device, sharing } = model;
    this.communicator = communicator;
    this.#model = model;
    this.#gradients = gradients;
    if (sharing) this.#sums = allocateTensor(device, 'gradient sums', device.gradientType, [sharing.count]);
  }

  /** The gradients of a layer's matrices are whole, as are those of the layers after it. */
  readonly layerDone = (layer: number): void => {
    const together = layersInBucket(this.#model.config);
    if (layer % together === 0) this.#reduce(layer / together + 1);
  };

  /** All gradients are whole, and the loss is in the step block. What comes next runs behind the exchange. */
  microBatchDone(step: Tensor): void {
    this.#reduce(0);
    allReduce(this.communicator, this.#gradients.vectors);
    allReduce(this.communicator, step.view([2], GPT2_STEP.GPT2_STEP_STOP));
    this.join();
  }

  /** What the gradient norm is taken over. */
  get normed(): { matrices: Tensor; vectors: Tensor; communicator?: Communicator } {
    const { matrices, vectors } = this.#gradients;
    return this.#sums ? { matrices: this.#sums, vectors, communicator: this.communicator } : { matrices, vectors };
  }

  /** What this rank updates of a bucket; undefined: all of it. */
  ownPart(index: number, { m, v }: Moments): UpdatePart | undefined {
    const { sharing, weights, masters } = this.#model;
    if (!sharing) return undefined;
    const { count, inWhole, inParts } = sharing.partOf(sharing.layout.buckets[index]!);
    const own = (parts: Tensor) => parts.view([count], inParts);
    const weight = weights.matrices.view([count], inWhole);
    return {
      weight,
      master: masters === weights ? weight : own(masters.matrices),
      m: own(m.matrices),
      v: own(v.matrices),
      gradient: own(this.#sums!),
    };
  }

  /** Every rank gets what the others have updated of a bucket, beside what comes next. */
  spread(index: number): void {
    const { sharing, weights } = this.#model;
    sharing?.spread(weights.matrices, sharing.layout.buckets[index]!);
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
    const { count: own, inParts } = sharing.partOf(sharing.layout.buckets[index]!);
    reduceScatter(this.communicator, { out: this.#sums!.view([own], inParts), input: bucket });
  }
}
