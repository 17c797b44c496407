// The order in which the tokens of a data set are read. A position (three numbers, saved in checkpoints) and the seed determine the
// tokens of a micro-batch. Permutations are not saved, but drawn again from the seed.
import { keyedPermutation } from './keyed-permutation.ts';
import { identityPermutation, MersenneTwister } from './mersenne-twister.ts';

export const orderNames = ['llmc', 'file', 'sequence'] as const;
export type OrderName = (typeof orderNames)[number];

/** A loader's position: complete passes, complete shards in this pass, samples read from the open shard. */
export interface Position {
  readonly epoch: number;
  readonly shard: number;
  readonly sample: number;
  /** For batches from a program: the program's positions, one for each rank; `epoch`, `shard` and `sample` are then 0. */
  readonly ofProgram?: readonly unknown[] | undefined;
}

/** `count` tokens of a shard from `start` on, and the token after them. */
interface Extent {
  readonly shard: number;
  readonly start: number;
  readonly count: number;
}

export interface OrderSizes {
  readonly shardTokens: readonly number[];
  readonly batch: number;
  readonly sequence: number;
  readonly rank: number;
  readonly ranks: number;
  readonly seed: number;
  readonly shuffle: boolean;
}

export type Order = ReturnType<typeof orderOf>;

/** The order with this name: `llmc` and `sequence` shuffle, `file` reads shards from start to end. */
export const orderOf = (name: OrderName, sizes: Omit<OrderSizes, 'shuffle'>) =>
  (name === 'sequence' ? sequenceOrder : sampleOrder)({ ...sizes, shuffle: name !== 'file' });

/** More passes than any run has. Rejects damaged positions, because drawing all permutations of so many passes could take hours. */
const mostEpochs = 1_000_000;

export const startPosition: Position = { epoch: 0, shard: 0, sample: 0 };

/**
 * The order of samples, which have batch x sequence x ranks tokens. Without `shuffle`, samples are read in file order. With
 * `shuffle`, in llm.c's order: each pass permutes the shards, starting from the previous pass's order; each opened shard draws a
 * permutation of its samples. All draws come from one generator, seeded with seed + rank.
 */
export function sampleOrder(sizes: OrderSizes) {
  const { shardTokens, batch, sequence, rank, ranks } = sizes;
  const count = batch * sequence;
  const samples = shardTokens.map((tokens) => Math.floor((tokens - 1) / (count * ranks)));
  const draw = drawing(sizes, samples, rank);
  return {
    extents({ epoch, shard, sample }: Position): Extent[] {
      const { shards, samplesOfShard } = draw(epoch, shard);
      return [{ shard: shards[shard]!, start: (samplesOfShard[sample]! * ranks + rank) * count, count }];
    },
    next({ epoch, shard, sample }: Position): Position {
      if (sample + 1 < draw(epoch, shard).samplesOfShard.length) return { epoch, shard, sample: sample + 1 };
      if (shard + 1 < shardTokens.length) return { epoch, shard: shard + 1, sample: 0 };
      return { epoch: epoch + 1, shard: 0, sample: 0 };
    },
    holds: ({ epoch, shard, sample }: Position): boolean =>
      epoch <= mostEpochs && shard < samples.length && sample < draw(epoch, shard).samplesOfShard.length,
    /** This rank's position after as many samples as rank 0 has read at `position`. Each rank shuffles the shards differently. */
    whenRootIsAt(position: Position): Position {
      if (rank === 0) return position;
      const { epoch, shard, sample } = position;
      let left = sample;
      for (const before of drawing(sizes, samples, 0)(epoch, shard).shards.subarray(0, shard)) left += samples[before]!;
      const { shards } = draw(epoch, 0);
      let index = 0;
      for (; left >= samples[shards[index]!]!; index++) left -= samples[shards[index]!]!;
      return { epoch, shard: index, sample: left };
    },
  };
}

/** Returns a function that draws all permutations up to a shard of a pass. It starts again from pass 0 if the last call went further. */
function drawing({ seed, shuffle, shardTokens }: OrderSizes, samples: readonly number[], rank: number) {
  let generator: MersenneTwister;
  let shards: Int32Array;
  let samplesOfShard: Int32Array;
  /** The pass and shard to which `shards` and `samplesOfShard` belong. */
  let at: { epoch: number; shard: number } | undefined;
  const openShard = (epoch: number, shard: number): void => {
    samplesOfShard = identityPermutation(samples[shards[shard]!]!);
    if (shuffle) generator.shuffle(samplesOfShard);
    at = { epoch, shard };
  };
  const openPass = (epoch: number): void => {
    if (shuffle) generator.shuffle(shards);
    openShard(epoch, 0);
  };
  return (epoch: number, shard: number) => {
    if (!at || epoch < at.epoch || (epoch === at.epoch && shard < at.shard)) {
      generator = new MersenneTwister((seed + rank) >>> 0);
      shards = identityPermutation(shardTokens.length);
      openPass(0);
    }
    while (at!.epoch < epoch || at!.shard < shard) {
      if (at!.shard + 1 < shards.length) openShard(at!.epoch, at!.shard + 1);
      else openPass(at!.epoch + 1);
    }
    return { shards, samplesOfShard };
  };
}

/** The most sequences for which a new run stores the permutation in memory: 64 MiB of int32. */
export const mostStored = 2 ** 24;

/** In positions of `sequenceOrder`, `shard` is 1 if the permutation is computed from keys, 0 if it is stored. */
const keyed = 1;

/**
 * Single sequences of all shards, shuffled in each pass by a permutation that depends only on seed and pass. The permutation is
 * stored or, for more than `mostStored` sequences, computed from keys. Row r of the k-th batch is sequence k·rows + r of the
 * permutation, so every split of the same total batch sees the same tokens. `sample` counts sequences over all ranks; a batch
 * may continue in the next pass. A run that began with stored permutations continues with these: `shard` in its positions is 0,
 * for any number of sequences.
 */
export function sequenceOrder({ shardTokens, batch, sequence, rank, ranks, seed }: OrderSizes) {
  /** Index of each shard's first sequence among all sequences; at the end the number of sequences. */
  const firsts = [0];
  for (const tokens of shardTokens) firsts.push(firsts.at(-1)! + Math.floor((tokens - 1) / sequence));
  const total = firsts.at(-1)!;
  /** The pass (`epoch`) to which `permutation` belongs, and whether it is stored or keyed (`shard`). */
  let open: { epoch: number; shard: number } | undefined;
  let permutation: (sample: number) => number;
  let memory: Int32Array | undefined;
  const openPass = (epoch: number, shard: number): void => {
    // Each pass has a different generator, far from those of seeds near `seed`: the odd multiplier spreads passes over all 32 bits.
    const generator = new MersenneTwister((seed + Math.imul(epoch, 0x9e3779b1)) >>> 0);
    if (shard === keyed) {
      permutation = keyedPermutation(total, generator);
    } else {
      // All passes share this memory, because a batch reads all its rows of one pass before its rows of the next pass.
      const stored = identityPermutation(total, memory);
      generator.shuffle(stored);
      memory = stored;
      permutation = (sample) => stored[sample]!;
    }
    open = { epoch, shard };
  };
  const advance = ({ epoch, shard, sample }: Position, by: number): Position => {
    const isNew = epoch === 0 && sample === 0 && total > mostStored;
    const passed = Math.floor((sample + by) / total);
    return { epoch: epoch + passed, shard: isNew ? keyed : shard, sample: (sample + by) % total };
  };
  const extentAt = ({ epoch, shard: kind, sample }: Position): Extent => {
    if (epoch !== open?.epoch || kind !== open.shard) openPass(epoch, kind);
    const index = permutation(sample);
    const shard = firsts.findIndex((first) => first > index) - 1;
    return { shard, start: (index - firsts[shard]!) * sequence, count: sequence };
  };
  return {
    extents: (position: Position): Extent[] =>
      Array.from({ length: batch }, (_, row) => extentAt(advance(position, rank * batch + row))),
    next: (position: Position): Position => advance(position, batch * ranks),
    holds: ({ epoch, shard, sample }: Position): boolean => epoch <= mostEpochs && shard <= keyed && sample < total,
    whenRootIsAt: (position: Position): Position => position,
  };
}
