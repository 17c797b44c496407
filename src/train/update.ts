// Updates all parameters by their optimizers. With ZeRO-1 each rank updates its part of every bucket, in the order in which a
// forward pass reads them: a bucket's weights return from the other ranks while the next buckets are updated and the next
// forward pass begins.
import { layersInBucket, type ParameterArena } from '../model/arena.ts';
import type { Model } from '../model/model.ts';
import type { Sharing } from '../model/shards.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import type { OptimizerState } from '../optimizer/state.ts';
import type { Exchange } from './exchange.ts';

export interface UpdateInputs {
  readonly model: Model;
  readonly gradients: ParameterArena;
  readonly optimizerState: OptimizerState;
  readonly step: Tensor;
}

export class Update {
  readonly #inputs: UpdateInputs;
  readonly #exchange: Exchange | undefined;
  /** One for each bucket: its weights have returned. */
  #events: readonly Pointer[] | undefined;

  constructor(inputs: UpdateInputs, exchange: Exchange | undefined) {
    this.#inputs = inputs;
    this.#exchange = exchange;
  }

  /** Issues all of it; work issued later runs after it. */
  issue(): void {
    const { model, gradients, optimizerState, step } = this.#inputs;
    optimizerState.issue(step, 'vector', gradients.vectors);
    if (model.sharing && this.#exchange) {
      this.#issueBuckets(model.sharing, this.#exchange);
      this.#exchange.join();
    } else optimizerState.issue(step, 'matrix', gradients.matrices);
  }

  /**
   * Issues it before a forward pass, which may begin as soon as the weights of the embeddings have returned. The forward pass
   * calls the result before each layer, in order, to wait for that layer's weights.
   */
  issueForForward(): (layer: number) => void {
    const { model, gradients, optimizerState, step } = this.#inputs;
    const { device, config, sharing } = model;
    const exchange = this.#exchange;
    if (!sharing || !exchange) {
      this.issue();
      return () => {};
    }
    this.#events ??= gradients.layout.buckets.map(() => device.createEvent());
    const events = this.#events;
    optimizerState.issue(step, 'vector', gradients.vectors);
    this.#issueBuckets(sharing, exchange, (bucket) => exchange.record(events[bucket]!));
    device.behind(events[0]!);
    const together = layersInBucket(config);
    return (layer) => {
      if (layer % together === 0) device.behind(events[layer / together + 1]!);
    };
  }

  #issueBuckets(sharing: Sharing, exchange: Exchange, spread?: (bucket: number) => void): void {
    const { optimizerState, step } = this.#inputs;
    for (const [index, bucket] of sharing.layout.buckets.entries()) {
      const { count, inArena: start, inParts } = sharing.partOf(bucket);
      optimizerState.issue(step, 'matrix', exchange.ownGradients, { start, count, inParts });
      exchange.spread(sharing, index);
      spread?.(index);
    }
  }
}
