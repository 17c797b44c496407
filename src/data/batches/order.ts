// The order in which the tokens of a data set are read. A position (three numbers, saved in checkpoints) and the seed determine
// which tokens a micro-batch has; permutations are derived from them.
import { keyedPermutation } from './keyed-permutation.ts';
import { identityPermutation, MersenneTwister } from './mersenne-twister.ts';

export const orderNames = ['llmc', 'file', 'sequence'] as const;
export type OrderName = (typeof orderNames)[number];

/** A loader's position: complete passes, complete shards in this pass, samples read from the open shard. */
export interface Position {
  readonly epoch: number;
  readonly shard: number;
  readonly sample: number;
  /** Positions of batches that a program gives, one for each rank; the numbers are then 0. */
  readonly ofProgram?: readonly unknown[] | undefined;
}

/** `count` tokens of a shard from `start` on, and the token after them. */
interface Extent {
  readonly shard: number;
  readonly start: number;
  readonly count: number;
}

export interface OrderSizes {
  /** Tokens in each shard. */
  readonly shardTokens: readonly number[];
  readonly batch: number;
  readonly sequence: number;
  readonly rank: number;
  readonly ranks: number;
  readonly seed: number;
  readonly shuffle: boolean;
}

export type Order = SampleOrder | SequenceOrder;

/** The order with this name. Only llmc and sequence shuffle. */
export const orderOf = (name: OrderName, sizes: Omit<OrderSizes, 'shuffle'>): Order => {
  const all = { ...sizes, shuffle: name !== 'file' };
  return name === 'sequence' ? new SequenceOrder(all) : new SampleOrder(all);
};

/** More passes than any run has. Permutations are drawn pass by pass: for a damaged position this could take hours. */
const mostEpochs = 1_000_000;

export const startPosition: Position = { epoch: 0, shard: 0, sample: 0 };

/**
 * Samples of batch x sequence x ranks tokens. With `shuffle`, in llm.c's order: each pass permutes the list of shards in place,
 * so that the list depends on earlier passes, and each opened shard draws a permutation of its samples; all draws come from one
 * generator seeded with seed + rank. Without `shuffle`, in file order.
 */
export class SampleOrder {
  readonly #sizes: OrderSizes;
  readonly #samples: readonly number[];
  #generator!: MersenneTwister;
  #shards!: Int32Array;
  #samplesOfShard!: Int32Array;
  /** The pass and shard to which `#shards` and `#samplesOfShard` belong. */
  #at: { epoch: number; shard: number } | undefined;

  constructor(sizes: OrderSizes) {
    this.#sizes = sizes;
    const width = sizes.batch * sizes.sequence * sizes.ranks;
    this.#samples = sizes.shardTokens.map((tokens) => Math.floor((tokens - 1) / width));
  }

  /** The extents of the micro-batch at a position. */
  extents({ epoch, shard, sample }: Position): Extent[] {
    this.#moveTo(epoch, shard);
    const { batch, sequence, rank, ranks } = this.#sizes;
    const count = batch * sequence;
    return [{ shard: this.#shards[shard]!, start: (this.#samplesOfShard[sample]! * ranks + rank) * count, count }];
  }

  /** The position of the next micro-batch. */
  next({ epoch, shard, sample }: Position): Position {
    this.#moveTo(epoch, shard);
    if (sample + 1 < this.#samplesOfShard.length) return { epoch, shard, sample: sample + 1 };
    if (shard + 1 < this.#shards.length) return { epoch, shard: shard + 1, sample: 0 };
    return { epoch: epoch + 1, shard: 0, sample: 0 };
  }

  /** Whether the data has this position. */
  holds({ epoch, shard, sample }: Position): boolean {
    if (epoch > mostEpochs || shard >= this.#samples.length) return false;
    this.#moveTo(epoch, shard);
    return sample < this.#samplesOfShard.length;
  }

  /** The position that this rank has when rank 0 is at `position`: each rank shuffles the shards differently. */
  whenRootIsAt(position: Position): Position {
    if (this.#sizes.rank === 0) return position;
    const { epoch, shard, sample } = position;
    const root = new SampleOrder({ ...this.#sizes, rank: 0 });
    root.#moveTo(epoch, shard);
    let left = sample;
    for (const before of root.#shards.subarray(0, shard)) left += this.#samples[before]!;
    this.#moveTo(epoch, 0);
    let index = 0;
    for (; left >= this.#samples[this.#shards[index]!]!; index++) left -= this.#samples[this.#shards[index]!]!;
    return { epoch, shard: index, sample: left };
  }

  /** Draws permutations up to a shard of a pass; from the start if the place is before the current one. */
  #moveTo(epoch: number, shard: number): void {
    if (this.#at?.epoch === epoch && this.#at.shard === shard) return;
    const isEarlier = !this.#at || epoch < this.#at.epoch || (epoch === this.#at.epoch && shard < this.#at.shard);
    if (isEarlier) {
      const { seed, rank, shardTokens } = this.#sizes;
      this.#generator = new MersenneTwister((seed + rank) >>> 0);
      this.#shards = identityPermutation(shardTokens.length);
      this.#openPass(0);
    }
    while (this.#at!.epoch < epoch || this.#at!.shard < shard) {
      if (this.#at!.shard + 1 < this.#shards.length) this.#openShard(this.#at!.epoch, this.#at!.shard + 1);
      else this.#openPass(this.#at!.epoch + 1);
    }
  }

  #openPass(epoch: number): void {
    if (this.#sizes.shuffle) this.#generator.shuffle(this.#shards);
    this.#openShard(epoch, 0);
  }

  #openShard(epoch: number, shard: number): void {
    this.#samplesOfShard = identityPermutation(this.#samples[this.#shards[shard]!]!);
    if (this.#sizes.shuffle) this.#generator.shuffle(this.#samplesOfShard);
    this.#at = { epoch, shard };
  }
}

/** The most sequences for which a new run stores the permutation: 64 MiB. */
export const mostStored = 2 ** 24;

/** The value of `shard` in positions of a `SequenceOrder` with keyed permutations; with stored permutations it is 0. */
const keyed = 1;

/**
 * Single sequences of all shards, shuffled in each pass by a permutation that depends only on seed and pass. The permutation is
 * stored or, for more than `mostStored` sequences, computed from keys. Row r of the k-th batch is sequence k·rows + r of the
 * permutation, so every split of the same total batch sees the same tokens. `sample` counts sequences over all ranks; a batch
 * may continue in the next pass. A run that began with stored permutations keeps them: `shard` in its positions is 0, whatever
 * the number of sequences.
 */
export class SequenceOrder {
  readonly #sizes: OrderSizes;
  /** Index of each shard's first sequence among all sequences; at the end the number of sequences. */
  readonly #firsts: readonly number[];
  /** The pass and the kind of `#permutation`, as in a position. */
  #open: { epoch: number; shard: number } | undefined;
  #permutation!: (sample: number) => number;
  #stored: Int32Array | undefined;

  constructor(sizes: OrderSizes) {
    this.#sizes = sizes;
    const firsts = [0];
    for (const tokens of sizes.shardTokens) firsts.push(firsts.at(-1)! + Math.floor((tokens - 1) / sizes.sequence));
    this.#firsts = firsts;
  }

  extents(position: Position): Extent[] {
    const { batch, rank } = this.#sizes;
    return Array.from({ length: batch }, (_, row) => this.#extent(this.#advance(position, rank * batch + row)));
  }

  next(position: Position): Position {
    const { batch, ranks } = this.#sizes;
    return this.#advance(position, batch * ranks);
  }

  holds({ epoch, shard, sample }: Position): boolean {
    return epoch <= mostEpochs && shard <= keyed && sample < this.#firsts.at(-1)!;
  }

  whenRootIsAt(position: Position): Position {
    return position;
  }

  #advance({ epoch, shard, sample }: Position, by: number): Position {
    const total = this.#firsts.at(-1)!;
    const isNew = epoch === 0 && sample === 0 && total > mostStored;
    return {
      epoch: epoch + Math.floor((sample + by) / total),
      shard: isNew ? keyed : shard,
      sample: (sample + by) % total,
    };
  }

  #extent({ epoch, shard: kind, sample }: Position): Extent {
    if (epoch !== this.#open?.epoch || kind !== this.#open.shard) this.#openPass(epoch, kind);
    const index = this.#permutation(sample);
    const { sequence } = this.#sizes;
    let shard = 0;
    while (this.#firsts[shard + 1]! <= index) shard++;
    return { shard, start: (index - this.#firsts[shard]!) * sequence, count: sequence };
  }

  #openPass(epoch: number, shard: number): void {
    const total = this.#firsts.at(-1)!;
    // Any two (seed, pass) pairs give different generators: an odd multiplier spreads passes over all 32 bits.
    const generator = new MersenneTwister((this.#sizes.seed + Math.imul(epoch, 0x9e3779b1)) >>> 0);
    if (shard === keyed) {
      this.#permutation = keyedPermutation(total, generator);
    } else {
      // All passes use the same memory: a batch reads its rows of one pass before the rows of the next pass.
      const stored = identityPermutation(total, this.#stored);
      generator.shuffle(stored);
      this.#stored = stored;
      this.#permutation = (sample) => stored[sample]!;
    }
    this.#open = { epoch, shard };
  }
}
