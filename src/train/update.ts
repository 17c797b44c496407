// What a step changes: AdamW over all parameters. Of ranks each updates its part of every bucket, in the order in which a
// forward pass reads them: a bucket's weights return from the others while the buckets behind it are updated and the next
// forward pass begins.

import { layersInBucket, type ParameterArena, type ParameterCopy } from '../model/arena.ts';
import type { Model } from '../model/model.ts';
import type { Sharing } from '../model/shards.ts';
import { GPT2_STEP, type Pointer } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import { adamw } from '../ops/ops.generated.ts';
import type { Exchange, UpdatePart } from './exchange.ts';

const beta1 = 0.9;
const beta2 = 0.95;
const eps = 1e-8;

/** 1 - beta^t of both moments in step `index`, counted from 0, with t = index + 1. */
export const corrections = (index: number): number[] => [beta1, beta2].map((beta) => 1 - beta ** (index + 1));

export interface UpdateState {
  readonly model: Model;
  readonly gradients: ParameterArena;
  readonly m: ParameterCopy;
  readonly v: ParameterCopy;
  readonly step: Tensor;
  readonly weightDecay: number;
}

export class Update {
  readonly #state: UpdateState;
  readonly #exchange: Exchange | undefined;
  /** One for each bucket: its weights are back. */
  #events: readonly Pointer[] | undefined;

  constructor(state: UpdateState, exchange: Exchange | undefined) {
    this.#state = state;
    this.#exchange = exchange;
  }

  /** Issues all of it; what comes next runs behind it. */
  issue(): void {
    const { model } = this.#state;
    this.#adamw(this.#whole('vectors'), 0);
    if (model.sharing && this.#exchange) {
      this.#issueBuckets(model.sharing, this.#exchange);
      this.#exchange.join();
    } else this.#adamw(this.#whole('matrices'), this.#state.weightDecay);
  }

  /**
   * Issues it, for a forward pass to come next: that runs behind the embeddings' weights, and behind those of a layer what comes
   * after a call of the result, which has to be called for every layer, in turn.
   */
  issueForForward(): (layer: number) => void {
    const { device, config, sharing } = this.#state.model;
    const exchange = this.#exchange;
    if (!sharing || !exchange) {
      this.issue();
      return () => {};
    }
    this.#events ??= this.#buckets.map(() => device.createEvent());
    const events = this.#events;
    this.#adamw(this.#whole('vectors'), 0);
    this.#issueBuckets(sharing, exchange, (bucket) => exchange.record(events[bucket]!));
    device.behind(events[0]!);
    const together = layersInBucket(config);
    return (layer) => {
      if (layer % together === 0) device.behind(events[layer / together + 1]!);
    };
  }

  #issueBuckets(sharing: Sharing, exchange: Exchange, spread?: (bucket: number) => void): void {
    for (const index of this.#buckets.keys()) {
      this.#adamw(exchange.ownPart(sharing, index, this.#state), this.#state.weightDecay);
      exchange.spread(sharing, index);
      spread?.(index);
    }
  }

  get #buckets() {
    return this.#state.gradients.layout.buckets;
  }

  #whole(kind: 'matrices' | 'vectors'): UpdatePart {
    const { model, gradients, m, v } = this.#state;
    const { weights, masters } = model;
    return { weight: weights[kind], master: masters[kind], m: m[kind], v: v[kind], gradient: gradients[kind] };
  }

  #adamw(part: UpdatePart, weightDecay: number): void {
    const { model, step } = this.#state;
    adamw(model.device, { ...part, step, firstScalar: GPT2_STEP.GPT2_STEP_SCALARS, beta1, beta2, eps, weightDecay });
  }
}
