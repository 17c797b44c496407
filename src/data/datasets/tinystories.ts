// The data set TinyStories (Eldan and Li 2023): 2.2 GB of short stories in simple words, from its text files. <|endoftext|>
// separates stories. White space at both ends of a story is removed, as in llm.c, which reads JSON files in another order.
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Corpus, type CorpusOptions, inDatasets } from './dataset.ts';
import { download, huggingFace } from './download.ts';
import type { FileRole, Input } from './text/format.ts';
import { findInputs } from './text/inputs.ts';
import { prepareText } from './text/prepare-text.ts';

const files = ['TinyStoriesV2-GPT4-train.txt', 'TinyStoriesV2-GPT4-valid.txt'];

const folder = join('data', 'tinystories');

/** TinyStories, with the shard names of llm.c and, as in llm.c, one shard per role. */
export const tinystories: Corpus = {
  name: 'tinystories',
  description: 'TinyStories: 2.2 GB of short stories in simple words',
  about: `Source: ${files[0]} and -valid.txt of roneneldan/TinyStories (2.2 GB), from --from, GPT2_DATASETS/tinystories
or the network; downloads are kept in <OUT>/download. <|endoftext|> separates stories. --from also takes the published
.parquet files. A file with train or valid in its name has that role; the content divides other files.`,
  examples: `
  npm run prepro tinystories
  npm run prepro -- tinystories --from stories/`,
  folders: { [folder]: '' },
  local: 'tinystories/*.txt',
  shardTokens: 2 ** 31 - 1,
  async prepare({ from, shardTokens, validation = 0.01, out = folder, ...rest }) {
    const options = { ...rest, out };
    return prepareText(await findStories(from, options), {
      ...options,
      format: { kind: 'text', separator: '<|endoftext|>', strip: true },
      division: { prefix: 'TinyStories', shardTokens, validation },
    });
  },
};

async function findStories(
  from: readonly string[] | undefined,
  options: Pick<CorpusOptions, 'onProgress' | 'notice'> & { readonly out: string },
): Promise<Input[]> {
  if (from)
    return from.flatMap((path) => findInputs([path], { include: ['*.txt', '*.txt.gz', '*.parquet'] })).map(withRole);
  const local = inDatasets('tinystories');
  const isLocal = local && files.every((name) => existsSync(join(local, name)));
  const source = isLocal ? local : join(options.out, 'download');
  if (!isLocal) {
    for (const name of files) {
      await download(huggingFace(`datasets/roneneldan/TinyStories/resolve/main/${name}`), join(source, name), options);
    }
  }
  return findInputs(files.map((name) => join(source, name))).map(withRole);
}

/** Adds the role in a file's name: the published names contain train or valid. Documents of other files are divided by content. */
function withRole(input: Input): Input {
  const name = basename(input.path);
  const role: FileRole = /valid|(?<![a-z])val(?![a-z])/i.test(name) ? 'val' : /train/i.test(name) ? 'train' : 'split';
  return { ...input, role };
}
