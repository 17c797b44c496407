// The process of huggingface-library.ts: opens a tokenizer.json, encodes, decodes, trains. A watchdog thread kills the process if
// the parent process has ended, if memory exceeds 2 GiB, or if an answer takes too long.
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Tokenizer as Package } from 'tokenizers';
import { orElse } from '../base/errors.ts';
import { TemporaryFolder } from '../native/temporary-folder.ts';
import type { Answer, Opening, Request } from './huggingface-library.ts';
import { type DecoderRecord, type Vocabulary, vocabularyOf } from './huggingface-tokenizer.ts';
import { type Loss, lossOf, sumOf } from './loss.ts';

/** The time limit, in milliseconds, to open a file or to answer a request with a short text. */
const patience = 10_000;
/** Added to the time limit for each character of a request: a hundred times the time that the library takes. */
const millisecondsPerCharacter = 0.1;

const ends = new Float64Array(new SharedArrayBuffer(8)).fill(Number.POSITIVE_INFINITY);
const watch = `
  const { parent, ends } = require('worker_threads').workerData;
  setInterval(() => {
    const end = (signal) => process.kill(process.pid, signal);
    if (process.ppid !== parent) end('SIGKILL');
    if (process.memoryUsage.rss() > 2 ** 31) end('SIGUSR2');
    if (Date.now() > ends[0]) end('SIGALRM');
  }, 50);
`;
/** The package tokenizers; undefined if it is not installed, which `open` reports. */
const tokenizers = orElse(undefined, (): typeof import('tokenizers') => createRequire(import.meta.url)('tokenizers'));
new Worker(watch, { eval: true, workerData: { parent: process.ppid, ends } }).unref();

/** Whether a decoder's text for a token, white space apart, does not depend on the tokens next to it. */
function isPiecewise({ type, decoders = [], pattern, content }: DecoderRecord): boolean {
  if (type === 'Sequence') return decoders.every(isPiecewise);
  if (type === 'Replace') return pattern?.String?.length === 1;
  return type === 'Strip'
    ? content === ' '
    : ['WordPiece', 'Metaspace', 'BPEDecoder', 'ByteFallback', 'Fuse'].includes(type);
}

/** The library's tokenizer for the opened file. */
let library: Package;
let vocabulary: Vocabulary;
let normalize: (text: string) => string;
/** The characters that an id adds to a text; undefined if they depend on the id's neighbours. */
let pieceOf: ((id: number) => string) | undefined;
/** The error if the file cannot be used: every request is then answered with it. */
let refusal: string | undefined;

/** Opens a tokenizer.json. @throws Error whose message continues "the tokenizer PATH" */
function open(file: string): void {
  if (!tokenizers) throw new Error('needs a package that is not installed: npm install tokenizers');
  try {
    library = tokenizers.Tokenizer.fromString(file);
  } catch (cause) {
    throw new Error(
      `cannot be used: the package tokenizers cannot read this tokenizer.json: ${(cause as Error).message}; update it, or give another file`,
    );
  }
  // Disabled, because a file may turn on truncation and padding, which are meant for batches of short texts.
  library.disableTruncation();
  library.disablePadding();
  const normalizer = library.getNormalizer();
  normalize = normalizer ? (text) => normalizer.normalizeString(text) : (text) => text;
  vocabulary = vocabularyOf(JSON.parse(file) as object);
  const { tokens, decoder } = vocabulary;
  for (let id = 0; id < Math.max(tokens.length, library.getVocabSize(true)); id++) {
    const found = library.idToToken(id) ?? undefined;
    if (found === tokens[id]) continue;
    const [ours, theirs] = [tokens[id], found].map((token) => JSON.stringify(token) ?? 'no token');
    throw new Error(
      `cannot be used: its id ${id} is ${ours}, but the package tokenizers reads ${theirs}; give another file`,
    );
  }
  if (!decoder || isPiecewise(decoder)) pieceOf = makePieceOf();
}

async function work(request: Request): Promise<Answer> {
  if ('decode' in request) return { text: await library.decode([...request.decode], true) };
  if ('train' in request) {
    library.train([...request.train]);
    using folder = new TemporaryFolder('tokenizer');
    const path = join(folder.path, 'tokenizer.json');
    library.save(path);
    return { text: readFileSync(path, 'utf8') };
  }
  const texts = [...request.encode];
  const encodings = await library.encodeBatch(texts, { addSpecialTokens: false });
  const ids = encodings.map((encoding) => Uint32Array.from(encoding.getIds()));
  const losses: Loss[] = [];
  for (const [index, text] of texts.entries()) losses.push(await lossIn(text, ids[index]!));
  return { encoded: { ids, loss: sumOf(losses) } };
}

async function lossIn(original: string, ids: Uint32Array): Promise<Loss> {
  const text = normalize(original);
  if (pieceOf) {
    const loss = lossOf(text, Array.from(ids, pieceOf));
    if (loss.lost.size === 0) return loss;
  }
  const decoded = await decode(original, ids);
  const withSpace = vocabulary.bytesOf !== undefined;
  const loss = lossOf(text, [decoded], withSpace);
  if (loss.lost.size === 0) return loss;
  // The library finds added tokens before it normalizes a text: decoding gives [SEP] where the normalized text has [sep]. So a
  // character counts as lost only if both the decoded text and the normalized decoded text lack it.
  const { lost } = lossOf(text, [normalize(decoded)], withSpace);
  const both = [...loss.lost]
    .map(([codePoint, times]) => [codePoint, Math.min(times, lost.get(codePoint) ?? 0)] as const)
    .filter(([, times]) => times > 0);
  return { characters: loss.characters, lost: new Map(both) };
}

/** Decodes ids except unknown tokens, then appends the unknown token as often as `text` literally contains its content. */
async function decode(text: string, ids: Uint32Array): Promise<string> {
  const { tokens, unknown, bytesOf } = vocabulary;
  const known = Array.from(ids).filter((id) => id !== unknown);
  const decoded = bytesOf
    ? Buffer.concat(known.map((id) => bytesOf(id, true))).toString()
    : await library.decode(known, false);
  const token = tokens[unknown ?? -1];
  if (!token) return decoded;
  return decoded + token.repeat(Math.min(text.split(token).length - 1, ids.length - known.length));
}

/** Returns a function that finds the characters an id adds, by decoding the id twice in a row: ten times as fast as decoding texts. */
function makePieceOf(): (id: number) => string {
  const { tokens, unknown } = vocabulary;
  const decoder = library.getDecoder();
  const decodeAll = (some: string[]) => decoder?.decode(some) ?? some.join(' ');
  const pieces: string[] = [];
  return (id) => {
    if (pieces[id] !== undefined) return pieces[id];
    const token = tokens[id]!;
    const [once, twice] = [decodeAll([token]), decodeAll([token, token])];
    // An id for one byte of a longer character gets no characters: it decodes only together with the other bytes.
    const isWhole = id !== unknown && twice.startsWith(once) && !twice.includes('\ufffd');
    pieces[id] = isWhole ? twice.slice(once.length) : '';
    return pieces[id];
  };
}

/** Number of characters (or bytes of files) in a request, on which its time limit depends. */
function lengthOf(request: Request): number {
  if ('encode' in request) return request.encode.reduce((sum, { length }) => sum + length, 0);
  return 'train' in request ? request.train.reduce((sum, file) => sum + statSync(file).size, 0) : 0;
}

/** For each kind of request, the words of its error and the advice. */
const refusals = {
  encode: ['has no ids for a text', 'leave it out, or take another tokenizer'],
  decode: ['cannot decode ids', 'leave it out, or take another tokenizer'],
  train: ['cannot be trained', 'name other files'],
} as const;

async function answer(request: Request): Promise<Answer> {
  if (refusal !== undefined) return { error: refusal };
  try {
    return await work(request);
  } catch (error) {
    const [what, advice] = refusals[Object.keys(request)[0] as keyof typeof refusals];
    return { error: `the tokenizer ${what}: ${(error as Error).message}; ${advice}` };
  }
}

// This listener keeps the process alive until the connection to its parent closes.
process.on('message', async (message: Opening | Request) => {
  const characters = 'file' in message ? 0 : lengthOf(message);
  ends[0] = Date.now() + patience + characters * millisecondsPerCharacter;
  if (!('file' in message)) process.send!(await answer(message));
  else {
    try {
      open(message.file);
    } catch (error) {
      refusal = `the tokenizer ${message.path} ${(error as Error).message}`;
    }
  }
  ends[0] = Number.POSITIVE_INFINITY;
});
