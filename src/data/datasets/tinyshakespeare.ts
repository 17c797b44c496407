// The data set tinyshakespeare (Karpathy 2015): 1.1 MB of plays. Every empty line ends a document, as in llm.c.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { explained, gpt2Error, words } from '../../base/errors.ts';
import { type DatasetSource, inDatasets, type SourceOptions } from './dataset.ts';
import { download } from './download.ts';

const url = 'https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt';
const sha256 = '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed';
const advice = words`give the file with --from FILE, or its folder in GPT2_DATASETS, or use \`prepro own-source\`, which needs no network`;
const local = 'tinyshakespeare/input.txt';
const localSource = `${local} of GPT2_DATASETS`;

export const tinyshakespeare: DatasetSource = {
  name: 'tinyshakespeare',
  description: '1.1 MB of Shakespeare, 338,028 tokens; the set of the recorded curves',
  prefix: 'tiny_shakespeare',
  sources: [localSource, url],
  local,
  validation: { firstTokens: 32_768 },
  async documents(options) {
    const { text, source } = await findText(options);
    const pieces = text.split('\n\n');
    return { source, documents: pieces.map((piece, index) => (index + 1 < pieces.length ? `${piece}\n\n` : piece)) };
  },
};

/** The text: of --from, else of the folder GPT2_DATASETS, else downloaded. */
async function findText({ from, folder, notice }: SourceOptions): Promise<{ text: string; source: string }> {
  const known = inDatasets(local);
  const [path, source] = from
    ? [from, from]
    : known && existsSync(known)
      ? [known, localSource]
      : [join(folder, 'download', 'input.txt'), url];
  // A person waits for this megabyte: a download that fails should fail within seconds.
  if (source === url) await download(url, path, { notice, sha256, pauseMilliseconds: 50, advice });
  const bytes = readText(path);
  const found = createHash('sha256').update(bytes).digest('hex');
  if (found !== sha256) {
    if (!from)
      throw gpt2Error`${path} has sha256 ${found}, not ${sha256}: remove the file, or name the published one with --from`;
    notice(`${from} is not the published text, so no recorded curve applies`);
  }
  return { text: bytes.toString('utf8'), source };
}

function readText(path: string): Buffer {
  const bytes = explained(`the text ${path} cannot be read`, words`name another with --from`, () => readFileSync(path));
  if (bytes.toString('utf8').trim() === '') throw gpt2Error`the text ${path} is empty: name another with --from`;
  return bytes;
}
