// Writes shards from part files, which hold the tokens of encoded chunks (parts.ts). Decides which tokens are for validation, and
// the number and sizes of shards. One pass over the parts counts tokens, another writes them. The result depends only on the parts.
import { Gpt2Error, gpt2Error } from '../../../base/errors.ts';
import { type Loss, sumOf } from '../../../tokenizer/loss.ts';
import { type LossOptions, refuseLoss } from '../../choose-tokenizer.ts';
import type { Role } from '../../shards/dataset-file.ts';
import { type Part, readPart } from './parts.ts';
import { shardSeries } from './shard-series.ts';

/** The least number of tokens for validation: GPT-2's context of 1024 and one target. */
const leastValidation = 1025;

export interface Division {
  /** The start of shard names: <prefix>_train.bin, or <prefix>_train_000001.bin if a role has several shards. */
  readonly prefix: string;
  /** Maximum tokens in a shard. */
  readonly shardTokens: number;
  /**
   * The share of the text for validation, from 0 to 1: the hash of a block's text decides whether the block is chosen. Or
   * `first shard`, as llm.c divides FineWeb: shard 000000 is for validation, and all other shards but the last are full.
   */
  readonly validation: number | 'first shard';
}

interface Assembly extends Division, LossOptions {
  /** The id that is written before each document; undefined if the tokenizer has none. */
  readonly endOfText: number | undefined;
}

/**
 * Makes shards in a folder from the parts at `paths`.
 * @throws Gpt2Error if a part is damaged, too much of the text is lost, one role would have no tokens, or the folder cannot be written
 */
export function assemble(paths: readonly string[], folder: string, division: Assembly) {
  const counts = decide(paths, division);
  refuseLoss(counts.loss, division);
  check(counts, division);
  if (counts.empty > 0) division.notice?.(`rows left out, because their text is only white space: ${counts.empty}`);
  const writers = {
    train: shardSeries(folder, namesOf(division, 'train', counts.tokens.train)),
    val: shardSeries(folder, namesOf(division, 'val', counts.tokens.val)),
  };
  try {
    const divide = dividerOf(division, counts);
    for (const path of paths) {
      for (const { role, tokens } of divide(readPart(path))) writers[role].write(tokens);
    }
    const { documents, loss } = counts;
    return { documents, loss, shards: [...writers.train.written, ...writers.val.written] };
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    throw gpt2Error`cannot write shards to ${folder}: ${cause}; make room, or name another folder with --out`;
  } finally {
    for (const writer of Object.values(writers)) writer.close();
  }
}

/** The rule for blocks of role `split`: if a block's fraction is under `below`, its first tokens, a share of `kept`, are validation. */
interface Decision {
  readonly below: number;
  readonly kept: number;
}

type Counts = ReturnType<typeof count>;

/** `Decision.below`: `share`, the requested share of validation, or just over the least fraction if no fraction is under `share`. */
function boundary(paths: readonly string[], share: number): number {
  let least = 1;
  for (const path of paths) {
    for (const { fraction, role } of readPart(path).blocks) least = Math.min(least, role === 'split' ? fraction : 0);
    if (least < share) return share;
  }
  return least + Number.EPSILON;
}

/** Decides which tokens are for validation, and counts the tokens of each role. */
function decide(paths: readonly string[], division: Assembly): Decision & Counts {
  const { validation } = division;
  const isFirst = validation === 'first shard';
  const below = isFirst ? 0 : boundary(paths, validation);
  const counts = count(paths, division, { below, kept: 1 });
  const kept = isFirst || !counts.isSplit ? 1 : keptShare(counts.content, validation);
  if (kept === 1) return { ...counts, below, kept };
  return { ...count(paths, division, { below, kept }), below, kept };
}

/**
 * `Decision.kept`. Among many different blocks, hashes choose about the requested share, and `kept` is 1. Among few or equal blocks,
 * hashes may choose over twice that share. Then only the start of each chosen block is for validation: equal blocks are divided alike.
 */
function keptShare({ train, val }: Record<Role, number>, share: number): number {
  const total = train + val;
  const wanted = Math.max(share * total, Math.min(leastValidation, total / 10));
  return val > 2 * wanted || train === 0 ? wanted / val : 1;
}

function count(paths: readonly string[], division: Assembly, decision: Decision) {
  const tokens = { train: 0, val: 0 };
  /** Numbers of tokens. Ends of text are left out, because their number depends on the order of the files. */
  const content = { train: 0, val: 0 };
  let documents = 0;
  let empty = 0;
  /** Whether every block has the role `split`, so that only hashes decide. */
  let isSplit = true;
  const losses: Loss[] = [];
  const divide = dividerOf(division, decision);
  for (const path of paths) {
    const part = readPart(path);
    losses.push(part.loss);
    empty += part.empty;
    for (const { opens, role } of part.blocks) {
      if (opens) documents++;
      isSplit &&= role === 'split';
    }
    for (const found of divide(part)) {
      tokens[found.role] += found.tokens.length;
      if (found.isContent) content[found.role] += found.tokens.length;
    }
  }
  return { tokens, content, documents, empty, isSplit, loss: sumOf(losses) };
}

/** @throws Gpt2Error if training would reject shards with these numbers of tokens */
function check({ tokens, isSplit }: Counts, { validation }: Division): void {
  const total = tokens.train + tokens.val;
  if (total === 0) throw gpt2Error`the files contain no text: name files that do`;
  const lacking = (['train', 'val'] as const).find((role) => tokens[role] === 0);
  if (!lacking) return;
  if (validation === 'first shard') {
    throw gpt2Error`all ${total} tokens are in the first shard, which is validation: give a smaller --shard-tokens, or --val-fraction`;
  }
  const none = `none of the ${total} tokens are for ${lacking === 'train' ? 'training' : 'validation'}`;
  throw isSplit
    ? gpt2Error`${none}: the text is too short to be divided: give more text, or name what separates documents with --separator`
    : gpt2Error`${none}: add a file with "${lacking}" in its name`;
}

/**
 * Returns a function that divides a part's tokens between train and val; the parts must be passed in order. The function adds an end
 * of text where a document begins, and where the role changes, because texts then meet in a shard that are apart in the source.
 */
function dividerOf({ validation, shardTokens, endOfText }: Assembly, { below, kept }: Decision) {
  const boundary = Uint16Array.from(endOfText === undefined ? [] : [endOfText]);
  /** Number of tokens that shard 000000 still lacks, if the first shard is for validation; else 0. */
  let firstLeft = validation === 'first shard' ? shardTokens : 0;
  let previous: Role | undefined;
  /** The number of tokens at the start of a block that are for validation. */
  const validationOf = ({ role, fraction, tokens }: Part['blocks'][number]): number => {
    if (role !== 'split') return role === 'val' ? tokens : 0;
    return fraction < below ? Math.floor(tokens * kept) : 0;
  };
  const spread = function* (role: Role, tokens: Uint16Array, isContent: boolean) {
    const first = Math.min(firstLeft, tokens.length);
    firstLeft -= first;
    if (first > 0) yield { role: 'val' as const, tokens: tokens.subarray(0, first), isContent };
    if (tokens.length > first) yield { role, tokens: tokens.subarray(first), isContent };
  };
  return function* (part: Part): Generator<{ role: Role; tokens: Uint16Array; isContent: boolean }> {
    let start = 0;
    for (const block of part.blocks) {
      const end = start + block.tokens;
      const cut = start + validationOf(block);
      for (const [role, from, to] of [
        ['val', start, cut],
        ['train', cut, end],
      ] as const) {
        if (from === to) continue;
        if ((block.opens && from === start) || role !== previous) yield* spread(role, boundary, false);
        yield* spread(role, part.tokens.subarray(from, to), true);
        previous = role;
      }
      start = end;
    }
  };
}

/**
 * Names, as in llm.c, and sizes of shards. Sizes are equal, so that the last shard is not too short for a batch. With
 * `first shard`, sizes are llm.c's: all shards but the last are full.
 */
function namesOf({ prefix, shardTokens, validation }: Division, role: Role, total: number) {
  const shards = Math.ceil(total / shardTokens);
  const isFirst = validation === 'first shard';
  return Array.from({ length: shards }, (_, index) => {
    const number = isFirst && role === 'val' ? 0 : index + 1;
    const tail = isFirst || shards > 1 ? `_${String(number).padStart(6, '0')}` : '';
    const [from, to] = isFirst
      ? [index * shardTokens, Math.min(total, (index + 1) * shardTokens)]
      : [Math.floor((index * total) / shards), Math.floor(((index + 1) * total) / shards)];
    return { file: `${prefix}_${role}${tail}.bin`, role, tokens: to - from };
  });
}
