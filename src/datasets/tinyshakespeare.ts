// tinyshakespeare (Karpathy 2015): 1.1 MB of plays. Cut at every empty line, as llm.c cuts it.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import type { DatasetSource, SourceOptions } from './dataset.ts';

const url = 'https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt';
const sha256 = '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed';
const localSource = 'tinyshakespeare/input.txt of GPT2_DATASETS';
const downloadMilliseconds = 60_000;

export const tinyshakespeare: DatasetSource = {
  name: 'tinyshakespeare',
  description: '1.1 MB of Shakespeare, 338,028 tokens; the set of the recorded curves',
  prefix: 'tiny_shakespeare',
  sources: [localSource, url],
  validation: { firstTokens: 32_768 },
  async documents(options) {
    const { text, source } = await findText(options);
    const pieces = text.split('\n\n');
    return { source, documents: pieces.map((piece, index) => (index + 1 < pieces.length ? `${piece}\n\n` : piece)) };
  },
};

/** --from, then the folder GPT2_DATASETS, then the network. */
async function findText({ from, notice }: SourceOptions): Promise<{ text: string; source: string }> {
  if (from) {
    const bytes = readText(from);
    if (hashOf(bytes) !== sha256) notice(`${from} is not the published text: the recorded curves will not fit`);
    return { text: bytes.toString('utf8'), source: from };
  }
  const folder = process.env.GPT2_DATASETS;
  const local = folder && join(folder, 'tinyshakespeare', 'input.txt');
  if (local && existsSync(local)) {
    const bytes = readText(local);
    checkHash(bytes, local);
    return { text: bytes.toString('utf8'), source: localSource };
  }
  const bytes = await download();
  checkHash(bytes, url);
  return { text: bytes.toString('utf8'), source: url };
}

function readText(path: string): Buffer {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    throw new Gpt2Error(`the text ${path} cannot be read: ${(cause as Error).message}; name another with --from`, {
      cause,
    });
  }
  if (bytes.toString('utf8').trim() === '')
    throw new Gpt2Error(`the text ${path} is empty, there is nothing to train on: name another with --from`);
  return bytes;
}

async function download(): Promise<Buffer> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(downloadMilliseconds) });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return Buffer.from(await response.arrayBuffer());
  } catch (cause) {
    const reason = ((cause as Error).cause as Error | undefined)?.message ?? (cause as Error).message;
    throw new Gpt2Error(
      `cannot download ${url}: ${reason}; give the file with --from FILE, or its folder in GPT2_DATASETS, or use \`prepro own-source\`, which needs no network`,
      { cause },
    );
  }
}

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

function checkHash(bytes: Buffer, source: string): void {
  const found = hashOf(bytes);
  if (found !== sha256)
    throw new Gpt2Error(
      `${source} has sha256 ${found}, not ${sha256}: it is damaged or another text: remove it, or name the file with --from`,
    );
}
