// Reads batches of tokens from shards, in an order (order.ts), from a position on. After a loader seeks an earlier position, it
// returns the same batches again.
import { dirname } from 'node:path';
import { checkGiven, checkValue, whole } from '../../base/checks/given.ts';
import { gpt2Error, usageError, words } from '../../base/errors.ts';
import { checkListed, type Dataset, readDataset } from '../shards/dataset-file.ts';
import { openShard, type Shard } from '../shards/shard.ts';
import { type Order, type OrderName, orderNames, orderOf, type Position, startPosition } from './order.ts';

/**
 * A micro-batch: `inputs` and `targets` (for each input the next token), both [B,T]. A target of -1 counts neither in the loss nor
 * in gradients. Each call of a loader's `next` refills and returns the same two arrays.
 */
export interface Batch {
  readonly inputs: Int32Array;
  readonly targets: Int32Array;
}

/** A new batch from rows of `sequence` + 1 tokens: all but the last are inputs, all but the first are targets. */
export function batchOfRows(rows: number, sequence: number, rowAt: (row: number) => Uint16Array): Batch {
  const [inputs, targets] = [new Int32Array(rows * sequence), new Int32Array(rows * sequence)];
  for (let row = 0; row < rows; row++) {
    const tokens = rowAt(row);
    inputs.set(tokens.subarray(0, -1), row * sequence);
    targets.set(tokens.subarray(1), row * sequence);
  }
  return { inputs, targets };
}

export interface LoaderOptions {
  /** Paths of the shards, in order. */
  readonly shards: readonly string[];
  /** Sequences in a micro-batch. */
  readonly batch: number;
  /** Tokens in a sequence. */
  readonly sequence: number;
  readonly order: OrderName;
  readonly seed: number;
  /** The model's vocabulary: `openLoader` rejects a token id that is not below this number. */
  readonly vocabularySize: number;
  readonly rank?: number | undefined;
  readonly ranks?: number | undefined;
  /** The id that begins every document: `openLoader` rejects shards if none contains it. Default: not checked. */
  readonly endOfText?: number | undefined;
}

export interface Loader extends Disposable {
  /** Tokens in all shards. */
  readonly tokens: number;
  /** The position of the next batch, as plain data, which `seek` takes. */
  readonly position: Position;
  readonly shards: readonly Shard[];
  next(): Batch;
  /** @throws Gpt2Error for a position that these shards do not have */
  seek(position: Position): void;
  /** Seeks this rank's position that corresponds to rank 0's `position`: ranks may shuffle differently. @throws as `seek` */
  seekAsRoot(position: Position): void;
  close(): void;
}

/**
 * Opens shards, checks every token, and compares the shards' sha256 with dataset.json in their folder.
 * @throws UsageError without shards, or for a rank that is not one of `ranks`; Gpt2Error for a file that is not a shard or is
 * damaged, a token outside the vocabulary, or a shard that is too short for one batch
 * @example
 * const shards = findShards('data/tinyshakespeare', 'train');
 * using loader = openLoader({ shards, batch: 4, sequence: 64, order: 'sequence', seed: 42, vocabularySize: 50257 });
 * const { inputs, targets } = loader.next(); // Int32Array [4,64] each
 */
export function openLoader(options: LoaderOptions): Loader {
  const sizes = { batch: whole(1), sequence: whole(1) };
  const numbers = { seed: whole(0, 2 ** 32 - 1), vocabularySize: whole(1, 65536) };
  const required = { shards: 'texts', ...sizes, order: orderNames, ...numbers } as const;
  checkGiven(options, required, { rank: whole(0), ranks: whole(1), endOfText: whole(0, 65535) });
  const { batch, sequence, order: orderName, seed, vocabularySize, rank = 0, ranks = 1 } = options;
  if (rank >= ranks) throw usageError`rank ${rank} is none of ${ranks} ranks, which count from 0`;
  const { endOfText } = options;
  let holdsDocuments = endOfText === undefined;
  const see = (tokens: Uint16Array) => {
    holdsDocuments ||= tokens.includes(endOfText!);
  };
  const check = (shard: Shard) => checkLength(shard, options);
  const { shards, close } = openShards(options.shards, vocabularySize, { check, see });
  if (!holdsDocuments) {
    close();
    throw gpt2Error`--document-mask needs documents that begin with end of text, and no shard in ${dirname(options.shards[0]!)} holds its token, ${endOfText}; give --no-document-mask, or make the data again with prepro`;
  }
  const shardTokens = shards.map(({ tokens }) => tokens);
  const orderOfRank = (rank: number): Order => orderOf(orderName, { shardTokens, batch, sequence, rank, ranks, seed });
  const order = orderOfRank(rank);
  const checkHolds = (order: Order, { epoch, shard, sample }: Position) => {
    checkGiven({ epoch, shard, sample }, { epoch: whole(0), shard: whole(0), sample: whole(0) }, {});
    if (order.holds({ epoch, shard, sample })) return;
    throw gpt2Error`there is no sample ${sample} of shard ${shard} in pass ${epoch} over ${dirname(options.shards[0]!)}: the position is from other data`;
  };
  const inputs = new Int32Array(batch * sequence);
  const targets = new Int32Array(batch * sequence);
  let position = startPosition;
  return {
    tokens: shardTokens.reduce((sum, count) => sum + count, 0),
    shards,
    get position() {
      return position;
    },
    next() {
      if (shards.length === 0) throw gpt2Error`the loader is closed; open another`;
      let filled = 0;
      for (const { shard, start, count } of order.extents(position)) {
        const tokens = shards[shard]!.read(start, count + 1);
        inputs.set(tokens.subarray(0, count), filled);
        targets.set(tokens.subarray(1), filled);
        filled += count;
      }
      position = order.next(position);
      return { inputs, targets };
    },
    seek(to) {
      checkValue('position', 'object', to);
      const { epoch, shard, sample } = to;
      checkHolds(order, { epoch, shard, sample });
      position = { epoch, shard, sample };
    },
    seekAsRoot({ epoch, shard, sample }) {
      checkHolds(orderOfRank(0), { epoch, shard, sample });
      position = order.whenRootIsAt({ epoch, shard, sample });
    },
    close,
    [Symbol.dispose]: close,
  };
}

/**
 * Opens and checks shards.
 * @param check a further check of each shard; `see` is called with the tokens of each shard, chunk by chunk
 * @throws as `openLoader`
 */
export function openShards(
  paths: readonly string[],
  vocabularySize: number,
  { check, see }: { check?: (shard: Shard) => void; see?: (tokens: Uint16Array) => void } = {},
) {
  if (paths.length === 0) throw usageError`shards names no file: give the paths of one or more shards`;
  const shards: Shard[] = [];
  const datasets = new Map<string, Dataset | undefined>();
  const close = () => {
    for (const shard of shards.splice(0)) shard[Symbol.dispose]();
  };
  try {
    for (const path of paths) {
      const shard = openShard(path);
      shards.push(shard);
      const folder = dirname(path);
      if (!datasets.has(folder)) datasets.set(folder, readDataset(folder));
      shard.checkTokens(vocabularySize, (sha256) => checkListed(path, sha256, datasets.get(folder)), see);
      check?.(shard);
    }
  } catch (error) {
    close();
    throw error;
  }
  return { shards: shards as readonly Shard[], close };
}

function checkLength({ path, tokens }: Shard, { batch, sequence, order, ranks = 1 }: LoaderOptions): void {
  const rows = order === 'sequence' ? 1 : batch * ranks;
  if (tokens >= rows * sequence + 1) return;
  const largest = Math.floor((tokens - 1) / (sequence * ranks));
  const advice =
    largest > 0 ? words`the largest --batch that fits is ${largest}` : words`--seq must be under ${tokens}`;
  const wanted = rows === 1 ? 'a sequence' : `${rows} sequences`;
  throw gpt2Error`${path} has ${tokens} tokens, too few for ${wanted} of ${sequence}; ${advice}`;
}

/**
 * Plans the batches of validation: the batch size is reduced until every validation shard holds at least one batch.
 * @returns `batch`, sequences per rank (0: a shard is too short, and validation is off); `ranks` that share a batch (1: every rank
 * reads the same batch); `batches` in the set; a `notice` for the user if the plan differs from the options
 */
export function planValidation(options: Omit<LoaderOptions, 'order' | 'seed' | 'vocabularySize' | 'rank'>) {
  const { shards, batch, sequence, ranks = 1 } = options;
  const sizes = shards.map((path) => {
    using shard = openShard(path);
    return shard.tokens;
  });
  const least = Math.min(...sizes);
  const fits = Math.max(0, Math.floor((least - 1) / sequence));
  const together = fits < ranks ? 1 : ranks;
  const each = Math.min(batch, Math.floor(fits / together));
  if (each === 0) {
    const notice = `validation is off: its ${least} tokens hold no sequence of ${sequence}`;
    return { batch: 0, ranks, batches: 0, notice };
  }
  const rows = each * together;
  const batches = sizes.reduce((sum, tokens) => sum + Math.floor((tokens - 1) / (rows * sequence)), 0);
  const notice = `validation uses batches of ${rows}: its ${least} tokens do not hold ${batch * ranks} sequences of ${sequence}`;
  return { batch: each, ranks: together, batches, notice: rows < batch * ranks ? notice : undefined };
}
