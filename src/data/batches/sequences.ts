// Reads whole sequences, spread evenly over a data set, for validation and `eval`. The choice depends on the shards, the length
// of a sequence and the requested number of tokens, not on the batch. For training, loader.ts reads batches in an order.
import { words } from '../../base/errors.ts';
import { type Batch, batchOfRows, type LoaderOptions, openShards } from './loader.ts';

export interface SequenceOptions extends Pick<LoaderOptions, 'shards' | 'sequence' | 'vocabularySize'> {
  /** Number of tokens to read, rounded down to whole sequences, at least one sequence. 'all': the whole set. */
  readonly tokens: number | 'all';
}

export type SequenceSet = ReturnType<typeof openSequences>;

/** Opens and checks shards, and selects sequences; none crosses the end of a shard. @throws Gpt2Error as `openLoader` */
export function openSequences({ shards: paths, sequence, tokens, vocabularySize }: SequenceOptions) {
  const { shards, close } = openShards(paths, vocabularySize);
  const counts = shards.map((shard) => Math.max(0, Math.floor((shard.tokens - 1) / sequence)));
  const all = counts.reduce((sum, count) => sum + count, 0);
  const count = tokens === 'all' ? all : Math.min(all, Math.max(1, Math.floor(tokens / sequence)));
  return {
    shards,
    sequence,
    /** Number of sequences to read. */
    count,
    /** Reads `rows` of the selected sequences, from index `first` on. @throws ChangedShardError if a shard has changed since opened */
    read: (first: number, rows: number): Batch =>
      batchOfRows(rows, sequence, (row) => {
        // BigInt, because the numerator may exceed 2^53, up to which a double holds every integer.
        let index = Number((BigInt(first + row) * BigInt(all)) / BigInt(count));
        let shard = 0;
        while (index >= counts[shard]!) index -= counts[shard++]!;
        return shards[shard]!.read(index * sequence, sequence + 1);
      }),
    /** Notices for the user: more tokens were requested than the set has, or tokens at the end of shards fill no sequence. */
    get notices(): string[] {
      // The first token of a shard is never a target.
      const predicted = shards.reduce((sum, shard) => sum + Math.max(0, shard.tokens - 1), 0);
      const left = predicted - all * sequence;
      const fill = left === 1 ? 'token at the end of shards fills' : 'tokens at the end of shards fill';
      const isShort = tokens !== 'all' && Math.floor(tokens / sequence) > all;
      if (all === 0) return [words`nothing is read: the set holds no sequence of ${sequence}; take a shorter --seq`];
      return [
        ...(tokens !== 'all' && tokens < sequence
          ? [`one sequence of ${sequence} is read: it is over the ${tokens} tokens asked for`]
          : []),
        ...(isShort ? [`all ${all} sequences of ${sequence} are read: the set does not hold ${tokens} tokens`] : []),
        ...(left > 0 ? [`${left} ${fill} no sequence of ${sequence}: left out`] : []),
      ];
    },
    close,
    [Symbol.dispose]: close,
  };
}
