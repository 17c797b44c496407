// Makes data sets of one published text. The text is the file that --from names, else the file in the folder that GPT2_DATASETS
// names, else fetched from its source.
import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { explained, gpt2Error, words } from '../../base/errors.ts';
import { decodeUtf8 } from '../../base/files/strict-text.ts';
import { type DatasetSource, inDatasets, type SourceOptions } from './dataset.ts';

interface PublishedText extends Pick<DatasetSource, 'name' | 'description' | 'prefix'> {
  /** Path of the text in the folder that GPT2_DATASETS names. */
  readonly local: string;
  /** The origin of the text: a URL, or a package and its file. */
  readonly source: string;
  readonly sha256: string;
  /** Writes the text to `path`, unless the file exists. */
  readonly fetch: (path: string, notice: (text: string) => void) => Promise<void>;
  readonly documentsOf: (text: string) => readonly string[];
}

export function publishedText({ documentsOf, ...published }: PublishedText): DatasetSource {
  const { name, description, prefix, local, source } = published;
  return {
    ...{ name, description, prefix, local, sources: [localSource(local), source] },
    validation: { firstTokens: 32_768 },
    async documents(options) {
      const found = await findText(options, published);
      return { source: found.source, documents: documentsOf(found.text) };
    },
  };
}

/** Advice at the end of the error if the text cannot be fetched. */
export const otherSources = words`give the file with --from FILE, or its folder in GPT2_DATASETS, or use \`prepro own-source\`, which needs no network`;

const localSource = (local: string) => `${local} of GPT2_DATASETS`;

async function findText(
  { from, folder, notice }: SourceOptions,
  { local, source: origin, sha256, fetch }: Omit<PublishedText, 'documentsOf'>,
): Promise<{ text: string; source: string }> {
  const known = inDatasets(local);
  const [path, source] = from
    ? [from, from]
    : known && existsSync(known)
      ? [known, localSource(local)]
      : [join(folder, 'download', 'input.txt'), origin];
  if (source === origin) await fetch(path, notice);
  const [bytes, text] = explained(`the text ${path} cannot be read`, words`name another with --from`, () => {
    const bytes = readFileSync(path);
    return [bytes, decodeUtf8(bytes)];
  });
  if (text.trim() === '') throw gpt2Error`the text ${path} is empty: name another with --from`;
  const found = hash('sha256', bytes);
  if (found !== sha256) {
    if (!from)
      throw gpt2Error`${path} has sha256 ${found}, not ${sha256}: remove the file, or name the published one with --from`;
    notice(`${from} is not the published text, so no recorded curve applies`);
  }
  return { text, source };
}
