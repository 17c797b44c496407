// The data sets FineWeb and FineWeb-Edu (Penedo et al. 2024) in llm.c's layout: shards of 100 million tokens, the first for
// validation. The shards are encoded from Parquet files or JSON lines, or downloaded as llm.c's script made them.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { whole } from '../../base/checks/given.ts';
import { gpt2Error, usageError } from '../../base/errors.ts';
import { checkedJson } from '../../base/files/checked-json.ts';
import { gpt2 } from '../../tokenizer/tokenizer.ts';
import { type Dataset, datasetFile, type Role, tokenizerRecord } from '../shards/dataset-file.ts';
import { openShard, writeDurably } from '../shards/shard.ts';
import { type Prepared, standingIn, standsInTheWay } from '../standing.ts';
import type { Corpus, CorpusOptions } from './dataset.ts';
import { download, huggingFace } from './download.ts';
import { findInputs } from './text/inputs.ts';
import { prepareText } from './text/prepare-text.ts';
import { workFolder } from './text/work-folder.ts';

/** Versions of the data set. `repository` has the encoded shards; `shards`: how many of these hold ten billion training tokens. */
const versions = {
  '10B': {
    prefix: 'fineweb',
    out: join('data', 'fineweb10B'),
    description: 'a sample of FineWeb of 10 billion tokens',
    repository: 'kjj0/fineweb10B-gpt2',
    shards: 103,
  },
  edu: {
    prefix: 'edu_fineweb',
    out: join('data', 'edu_fineweb10B'),
    description: 'the first 10 billion tokens of a sample of FineWeb-Edu',
    repository: 'karpathy/fineweb-edu-100B-gpt2-token-shards',
    shards: 100,
  },
};

type Version = (typeof versions)['10B'];

interface Options extends CorpusOptions {
  readonly version: string;
  readonly field?: string;
  readonly shards?: number;
}

export const fineweb = {
  name: 'fineweb',
  description: 'FineWeb and FineWeb-Edu, in shards of 100 million tokens',
  about: `Versions:
${Object.entries(versions)
  .map(([name, { description }]) => `  ${name.padEnd(5)} ${description}`)
  .join('\n')}

With --from, shards are made of files, in their order: .parquet as published, in row groups of up to 64 MiB of text (as
HuggingFaceFW/fineweb, sample/10BT/000_00000.parquet), .jsonl or .jsonl.gz. Shard 000000 is validation and the others are
for training, as in llm.c; with --val-fraction the content decides.
Without --from, shards made with llm.c's script are downloaded, 200 MB each.`,
  examples: `
  npm run prepro -- fineweb --version 10B --shards 10
  npm run prepro -- fineweb --version edu --from fineweb-edu/            a folder of .parquet or .jsonl`,
  folders: Object.fromEntries(Object.entries(versions).map(([name, { out }]) => [out, `--version ${name}`])),
  shardTokens: 100_000_000,
  flags: [
    { usage: '--version <NAME>', help: Object.keys(versions).join(', '), default: '10B' },
    { usage: '--field <NAME>', help: 'column or JSON field of the text', default: 'text' },
    { usage: '--shards <N>', help: 'training shards to download (default: 10 billion tokens)', type: whole(1, 1100) },
  ],
  async prepare({ from, version: name, shards, field = 'text', shardTokens, validation, ...rest }: Options) {
    if (!Object.hasOwn(versions, name))
      throw usageError`--version takes one of ${Object.keys(versions).join(', ')}, not ${JSON.stringify(name)}`;
    const version = versions[name as keyof typeof versions];
    const options = { ...rest, out: rest.out ?? version.out };
    if (!from) return downloadShards(version, { shards, ...options });
    const inputs = findInputs(from, { include: ['*.parquet', '*.jsonl', '*.jsonl.gz', '*.json.gz'] });
    return prepareText(inputs, {
      ...options,
      format: { kind: 'jsonl', field },
      division: { prefix: version.prefix, shardTokens, validation: validation ?? 'first shard' },
    });
  },
} satisfies Corpus;

const sourceOf = ({ repository, description }: Version): string => `${repository} on Hugging Face: ${description}`;

type Download = Pick<Options, 'shards' | 'tokenizer' | 'overwrite' | 'onProgress' | 'notice'> & {
  readonly out: string;
};

async function downloadShards(version: Version, options: Download): Promise<Prepared> {
  const { out, shards: count = version.shards, tokenizer = gpt2.name, overwrite } = options;
  if (tokenizer !== gpt2.name)
    throw usageError`--tokenizer ${tokenizer} needs the text, and the published shards have GPT-2's tokens: give the text with --from`;
  const wanted: { file: string; role: Role }[] = [{ file: `${version.prefix}_val_000000.bin`, role: 'val' }];
  for (let number = 1; number <= count; number++) {
    wanted.push({ file: `${version.prefix}_train_${String(number).padStart(6, '0')}.bin`, role: 'train' });
  }
  const { dataset, replaced } = standingIn(out, version.prefix);
  const known = dataset?.source === sourceOf(version) ? dataset : undefined;
  if (dataset && !known) {
    if (!overwrite) throw standsInTheWay(out, `a data set of ${dataset.source}`);
    for (const file of [datasetFile, ...replaced]) rmSync(join(out, file), { force: true });
  }
  const work = known ? undefined : workFolder(out);
  try {
    const made = await fetchShards(wanted, { version, known, options });
    work?.remove();
    return made;
  } catch (error) {
    // Remove the work folder, which marks the data set as unfinished, only if `out` holds nothing else, such as downloaded shards.
    if (readdirSync(out).length === 1) work?.abandon();
    throw error;
  }
}

async function fetchShards(
  wanted: readonly { file: string; role: Role }[],
  { version, known, options }: { version: Version; known: Dataset | undefined; options: Download },
): Promise<Prepared> {
  const { out } = options;
  let present = known !== undefined;
  const shards: Dataset['shards'] = [];
  for (const { file, role } of wanted) {
    const path = join(out, file);
    present &&= existsSync(path);
    await download(huggingFace(`datasets/${version.repository}/resolve/main/${file}`), path, options);
    using shard = openShard(path);
    shard.checkTokens(gpt2.vocabularySize);
    shards.push({ file, role, tokens: shard.tokens, sha256: shard.sha256! });
    const before = known?.shards.find((one) => one.file === file);
    if (before && before.sha256 !== shard.sha256) {
      throw gpt2Error`${path} is damaged, its sha256 no longer matches the download: remove it and run this again`;
    }
    present &&= before !== undefined;
  }
  // Keep further shards of an earlier download in the data set.
  for (const shard of known?.shards ?? []) {
    if (!wanted.some(({ file }) => file === shard.file) && existsSync(join(out, shard.file))) shards.push(shard);
  }
  const dataset: Dataset = { source: sourceOf(version), ...tokenizerRecord(gpt2), shards };
  if (!present) writeDurably(join(out, datasetFile), [Buffer.from(checkedJson(dataset))]);
  return { folder: out, present, dataset };
}
