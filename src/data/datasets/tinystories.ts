// The data set TinyStories (Eldan and Li 2023): 2.2 GB of short stories in simple words, from its text files. <|endoftext|>
// separates stories; white space at their ends is removed as in llm.c, which reads JSON files in another order.
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Prepared } from '../standing.ts';
import { download, huggingFace } from './download.ts';
import type { FileRole, Input } from './text/format.ts';
import { findInputs } from './text/inputs.ts';
import { prepareText, type TextOptions } from './text/prepare-text.ts';

const files = ['TinyStoriesV2-GPT4-train.txt', 'TinyStoriesV2-GPT4-valid.txt'];

/** llm.c's names, and one shard per role, as in llm.c. */
export const tinystories = { out: join('data', 'tinystories'), prefix: 'TinyStories', shardTokens: 2 ** 31 - 1 };

export type CorpusOptions = Pick<
  TextOptions,
  'out' | 'tokenizer' | 'workers' | 'overwrite' | 'lossy' | 'onProgress' | 'notice'
> & {
  /** Files or folders to read instead of downloading. */
  readonly from?: readonly string[];
  readonly shardTokens: number;
  readonly validation?: number;
};

/** @throws as prepareText and download */
export async function prepareTinystories({
  from,
  shardTokens,
  validation,
  ...options
}: CorpusOptions): Promise<Prepared> {
  const inputs = await findStories(from, options);
  return prepareText(inputs, {
    ...options,
    format: { kind: 'text', separator: '<|endoftext|>', strip: true },
    division: { prefix: tinystories.prefix, shardTokens, validation: validation ?? 0.01 },
  });
}

async function findStories(
  from: readonly string[] | undefined,
  options: Omit<CorpusOptions, 'from' | 'shardTokens'>,
): Promise<Input[]> {
  if (from)
    return from.flatMap((path) => findInputs([path], { include: ['*.txt', '*.txt.gz', '*.parquet'] })).map(withRole);
  const local = process.env.GPT2_DATASETS && join(process.env.GPT2_DATASETS, 'tinystories');
  const isLocal = local && files.every((name) => existsSync(join(local, name)));
  const folder = isLocal ? local : join(options.out, 'download');
  if (!isLocal) {
    for (const name of files) {
      await download(huggingFace(`datasets/roneneldan/TinyStories/resolve/main/${name}`), join(folder, name), options);
    }
  }
  return findInputs(files.map((name) => join(folder, name))).map(withRole);
}

/** Adds the role that a file's name contains, as the published names do; the documents of other files are divided by content. */
function withRole(input: Input): Input {
  const name = basename(input.path);
  const role: FileRole = /valid|(?<![a-z])val(?![a-z])/i.test(name) ? 'val' : /train/i.test(name) ? 'train' : 'split';
  return { ...input, role };
}
