// The data sets FineWeb and FineWeb-Edu (Penedo et al. 2024) in llm.c's layout: shards of 100 million tokens, the first for
// validation. They are encoded from Parquet files or JSON lines, or downloaded as shards that llm.c's script made.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { gpt2Error, usageError } from '../../base/errors.ts';
import { checkedJson } from '../../base/files/checked-json.ts';
import { gpt2 } from '../../tokenizer/tokenizer.ts';
import { type Dataset, datasetFile, type Role, tokenizerRecord } from '../shards/find-shards.ts';
import { openShard, writeDurably } from '../shards/shard.ts';
import { type Prepared, standingIn, standsInTheWay } from '../standing.ts';
import { download, huggingFace } from './download.ts';
import { findInputs } from './text/inputs.ts';
import { prepareText } from './text/prepare-text.ts';
import { WorkFolder } from './text/work-folder.ts';
import type { CorpusOptions } from './tinystories.ts';

/** The versions. `repository` has the encoded shards; `shards` is the number of shards that hold ten billion training tokens. */
export const finewebVersions = {
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

type Version = (typeof finewebVersions)['10B'];

/** @throws UsageError for an unknown version */
export function finewebVersion(name: string): Version {
  if (Object.hasOwn(finewebVersions, name)) return finewebVersions[name as keyof typeof finewebVersions];
  throw usageError`--version takes one of ${Object.keys(finewebVersions).join(', ')}, not ${JSON.stringify(name)}`;
}

export interface FinewebOptions extends CorpusOptions {
  readonly version: string;
  /** The column or JSON field of the text. */
  readonly field?: string;
  /** The number of training shards to download. */
  readonly shards?: number;
}

/** @throws as prepareText and download */
export async function prepareFineweb(options: FinewebOptions): Promise<Prepared> {
  const { from, version: name, shards: _, field = 'text', shardTokens, validation = 'first shard', ...rest } = options;
  const version = finewebVersion(name);
  if (!from) return downloadShards(version, options);
  const inputs = findInputs(from, { include: ['*.parquet', '*.jsonl', '*.jsonl.gz', '*.json.gz'] });
  return prepareText(inputs, {
    ...rest,
    format: { kind: 'jsonl', field },
    division: { prefix: version.prefix, shardTokens, validation },
  });
}

const sourceOf = ({ repository, description }: Version): string => `${repository} on Hugging Face: ${description}`;

async function downloadShards(version: Version, options: FinewebOptions): Promise<Prepared> {
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
  const work = known ? undefined : new WorkFolder(out);
  try {
    const made = await fetchShards(wanted, { version, known, options });
    work?.remove();
    return made;
  } catch (error) {
    // Keep downloaded shards; the work folder marks the data set as unfinished.
    if (readdirSync(out).length === 1) work?.abandon();
    throw error;
  }
}

async function fetchShards(
  wanted: readonly { file: string; role: Role }[],
  { version, known, options }: { version: Version; known: Dataset | undefined; options: FinewebOptions },
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
  const dataset: Dataset = {
    source: sourceOf(version),
    ...tokenizerRecord(gpt2),
    shards,
  };
  if (!present) writeDurably(join(out, datasetFile), [Buffer.from(checkedJson(dataset))]);
  return { folder: out, present, dataset };
}
