// Data sets of texts that a test has written, and the tokens of their shards.
import { findInputs } from '../../src/data/datasets/text/inputs.ts';
import { prepareText, shardPrefix, type TextOptions } from '../../src/data/datasets/text/prepare-text.ts';
import { openShard } from '../../src/data/shards/shard.ts';

export type More = Partial<TextOptions> & { validation?: number };

/** The data set of files, on two threads; a file is a document unless `format` says otherwise. */
export const prepared = (paths: string[], out: string, { validation = 0.01, ...more }: More = {}) =>
  prepareText(findInputs(paths), {
    out,
    workers: 2,
    format: { kind: 'text' },
    division: { prefix: shardPrefix(out), shardTokens: 1e8, validation },
    ...more,
  });

/** All tokens of a shard. */
export function tokensIn(path: string): number[] {
  using shard = openShard(path);
  return [...shard.read(0, shard.tokens)];
}

/** Lines of JSON, each with a text. */
export const jsonl = (texts: readonly string[]): string => texts.map((text) => JSON.stringify({ text })).join('\n');
export const ofJsonl = { kind: 'jsonl', field: 'text' } as const;
