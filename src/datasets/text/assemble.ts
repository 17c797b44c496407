// Parts to shards: which tokens are for validation, how many shards there are and how large, and their writing, one pass
// over the parts for the counts and one for the tokens. All of it depends on the parts' content and order alone.
import { Gpt2Error } from '../../errors.ts';
import type { Role } from '../../shards/find.ts';
import { type Part, readPart } from './parts.ts';
import { type NamedSize, ShardSeries, type WrittenShard } from './shard-series.ts';

/** A sequence of GPT-2's and the token behind it: with fewer, nothing is validated. */
const leastValidation = 1025;

/** How tokens are divided. */
export interface Division {
  /** Shards are named <prefix>_train.bin, or <prefix>_train_000001.bin where there are several. */
  readonly prefix: string;
  /** Most tokens in a shard. */
  readonly shardTokens: number;
  /**
   * Share of the documents, by their content's hash, that are validation; or `first shard`, as llm.c divides FineWeb: shard
   * 000000 is validation, the shards behind it are full but for the last.
   */
  readonly validation: number | 'first shard';
}

export interface Assembled {
  readonly documents: number;
  readonly shards: WrittenShard[];
}

type Tokens = Record<Role, number>;

/**
 * Writes the shards of the parts at `paths` into a folder.
 * @throws Gpt2Error if a part is damaged, one role would have no tokens, or the folder cannot be written
 */
export function assemble(paths: readonly string[], folder: string, division: Division, endOfText: number): Assembled {
  const counts = settle(paths, division);
  check(counts, division);
  const writers = {
    train: new ShardSeries(folder, namesOf(division, 'train', counts.tokens.train)),
    val: new ShardSeries(folder, namesOf(division, 'val', counts.tokens.val)),
  };
  try {
    const roles = new RoleOf(division, counts);
    const boundary = Uint16Array.of(endOfText);
    for (const path of paths) {
      const part = readPart(path);
      eachBlock(part, roles, (role, needsBoundary, start, end) => {
        if (needsBoundary) roles.spread(role, 1, (role) => writers[role].write(boundary));
        roles.spread(role, end - start, (role, from, to) =>
          writers[role].write(part.tokens.subarray(start + from, start + to)),
        );
      });
    }
    return { documents: counts.documents, shards: [...writers.train.finish('train'), ...writers.val.finish('val')] };
  } catch (cause) {
    if (cause instanceof Gpt2Error) throw cause;
    throw new Gpt2Error(
      `cannot write shards to ${folder}: ${(cause as Error).message}; make room, or name another folder with --out`,
      { cause },
    );
  } finally {
    for (const writer of Object.values(writers)) writer.close();
  }
}

/** Which of the tokens that content divides are validation. */
interface Settled {
  /** Those of blocks below this fraction, */
  readonly below: number;
  /** and of these the first, by this share; the rest are for training. */
  readonly kept: number;
}

interface Counts {
  readonly tokens: Tokens;
  /** Without the ends of text, of which there are more or fewer as the order of files is. */
  readonly content: Tokens;
  readonly documents: number;
  /** Whether all of it is divided by content. */
  readonly isSplit: boolean;
}

/** Blocks below this fraction are validation: the share asked for, or, if that has none, just over the least there is. */
function boundary(paths: readonly string[], share: number): number {
  let least = 1;
  for (const path of paths) {
    for (const { fraction, role } of readPart(path).blocks) least = Math.min(least, role === 'split' ? fraction : 0);
    if (least < share) return share;
  }
  return least + Number.EPSILON;
}

/** What is validation, and how many tokens have which role. */
function settle(paths: readonly string[], division: Division): Settled & Counts {
  const { validation } = division;
  const isFirst = validation === 'first shard';
  const below = isFirst ? 0 : boundary(paths, validation);
  const counts = count(paths, division, { below, kept: 1 });
  const kept = isFirst || !counts.isSplit ? 1 : keptShare(counts.content, validation);
  if (kept === 1) return { ...counts, below, kept };
  return { ...count(paths, division, { below, kept }), below, kept };
}

/**
 * Of many blocks, hashes choose about the share that is asked for; of few, or of many that say the same, they can choose all
 * there is. Then the blocks that are chosen are divided themselves, each alike, so that the same text still has one role.
 */
function keptShare({ train, val }: Tokens, share: number): number {
  const total = train + val;
  const wanted = Math.max(share * total, Math.min(leastValidation, total / 10));
  return val > 2 * wanted || train === 0 ? wanted / val : 1;
}

function count(paths: readonly string[], division: Division, settled: Settled): Counts {
  const tokens = { train: 0, val: 0 };
  const content = { train: 0, val: 0 };
  let documents = 0;
  let isSplit = true;
  const roles = new RoleOf(division, settled);
  for (const path of paths) {
    const part = readPart(path);
    for (const { opens, role } of part.blocks) {
      if (opens) documents++;
      isSplit &&= role === 'split';
    }
    eachBlock(part, roles, (role, needsBoundary, start, end) => {
      content[role] += end - start;
      roles.spread(role, Number(needsBoundary) + end - start, (role, from, to) => {
        tokens[role] += to - from;
      });
    });
  }
  return { tokens, content, documents, isSplit };
}

/** @throws Gpt2Error if train would not take what is made of so many tokens */
function check({ tokens, isSplit }: Counts, { validation }: Division): void {
  const total = tokens.train + tokens.val;
  if (total === 0)
    throw new Gpt2Error('there is no text in what was given, nothing to make tokens of: name files that hold some');
  const lacking = (['train', 'val'] as const).find((role) => tokens[role] === 0);
  if (!lacking) return;
  if (validation === 'first shard') {
    throw new Gpt2Error(
      `all ${total} tokens are validation, the first shard: give a smaller --shard-tokens, or --val-fraction`,
    );
  }
  const none = `none of the ${total} tokens are for ${lacking === 'train' ? 'training' : 'validation'}`;
  throw new Gpt2Error(
    isSplit
      ? `${none}: the text is too short to be divided, give more of it, or say with --separator what stands between documents`
      : `${none}: give a file with "${lacking}" in its name, too`,
  );
}

/** Gives roles to blocks as they come, and to tokens where the first of them are validation. */
class RoleOf {
  readonly #settled: Settled;
  #firstLeft: number;
  previous: Role | undefined;

  constructor({ validation, shardTokens }: Division, settled: Settled) {
    this.#settled = settled;
    this.#firstLeft = validation === 'first shard' ? shardTokens : 0;
  }

  /** How many of a block's tokens are validation: the first ones. */
  validationOf({ role, fraction, tokens }: Part['blocks'][number]): number {
    if (role !== 'split') return role === 'val' ? tokens : 0;
    return fraction < this.#settled.below ? Math.floor(tokens * this.#settled.kept) : 0;
  }

  /** Tells which of the next `count` tokens go where: of the first shard's, to validation. */
  spread(role: Role, count: number, give: (role: Role, from: number, to: number) => void): void {
    const first = Math.min(this.#firstLeft, count);
    this.#firstLeft -= first;
    if (first > 0) give('val', 0, first);
    if (count > first) give(role, first, count);
  }
}

/**
 * The blocks of a part, their tokens as [start, end). A boundary is due where a document begins, and where what stands before
 * went to the other role: what follows does not go on from there.
 */
function eachBlock(
  part: Part,
  roles: RoleOf,
  give: (role: Role, needsBoundary: boolean, start: number, end: number) => void,
): void {
  let start = 0;
  for (const block of part.blocks) {
    const end = start + block.tokens;
    const cut = start + roles.validationOf(block);
    for (const [role, from, to] of [
      ['val', start, cut],
      ['train', cut, end],
    ] as const) {
      if (from === to) continue;
      give(role, (block.opens && from === start) || role !== roles.previous, from, to);
      roles.previous = role;
    }
    start = end;
  }
}

/** llm.c's names. Shards are of one size, so that no last one is too short for a batch; of FineWeb as llm.c's are. */
function namesOf({ prefix, shardTokens, validation }: Division, role: Role, total: number): NamedSize[] {
  const shards = Math.ceil(total / shardTokens);
  const isFirst = validation === 'first shard';
  return Array.from({ length: shards }, (_, index) => {
    const number = isFirst && role === 'val' ? 0 : index + 1;
    const tail = isFirst || shards > 1 ? `_${String(number).padStart(6, '0')}` : '';
    const [from, to] = isFirst
      ? [index * shardTokens, Math.min(total, (index + 1) * shardTokens)]
      : [Math.floor((index * total) / shards), Math.floor(((index + 1) * total) / shards)];
    return { file: `${prefix}_${role}${tail}.bin`, tokens: to - from };
  });
}
