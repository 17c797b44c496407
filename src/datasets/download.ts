// Downloads a file without losing data: the received bytes are in <path>.part, and after an interruption or a kill the download
// resumes by HTTP ranges if the server still has the same file. The server's checksum is checked.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Gpt2Error } from '../errors.ts';
import { hashFile } from '../files/read.ts';
import { cannotWrite } from './standing.ts';

const attempts = 6;
const silentMilliseconds = 60_000;

export interface DownloadOptions {
  /** Called with the received and the total bytes. */
  readonly onProgress?: (done: number, total: number) => void;
  readonly notice?: (text: string) => void;
  /** The pause before the second attempt; each further pause is twice as long. */
  readonly pauseMilliseconds?: number;
  /** The known checksum; default: the server's, if it sends one. */
  readonly sha256?: string;
  /** The end of the error if the download fails. */
  readonly advice?: string;
}

/** A server's description of a file, which shows whether it is still the same and complete. */
interface Facts {
  readonly size: number | undefined;
  /** The value for If-Range: a strong ETag, or the time of the last change. */
  readonly tag: string | undefined;
  readonly sha256: string | undefined;
}

/** The URL of a file of Hugging Face; HF_ENDPOINT names a mirror, as in its own tools. */
export const huggingFace = (path: string): string =>
  `${(process.env.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, '')}/${path}`;

/**
 * Downloads `url` to `path`, unless that exists.
 * @throws Gpt2Error if the download fails (the received part is kept), or its checksum or length is wrong
 */
export async function download(url: string, path: string, options: DownloadOptions = {}): Promise<void> {
  if (existsSync(path)) return;
  const { notice = () => {}, pauseMilliseconds = 1000, advice = 'give your own files with --from' } = options;
  let pause = pauseMilliseconds;
  for (let attempt = 1; ; attempt++) {
    try {
      const { size, sha256 } = await fetchRest(url, path, options);
      finish(url, path, { size, sha256: options.sha256 ?? sha256 }, notice);
      return;
    } catch (cause) {
      if (cause instanceof Gpt2Error) throw cause;
      const reason = reasonOf(cause);
      if (attempt === attempts || (cause instanceof Refused && !cause.mayPass)) {
        const kept =
          bytesOf(`${path}.part`) > 0 ? `${path}.part keeps the received part: run this again to resume, or ` : '';
        throw new Gpt2Error(`cannot download ${url}: ${reason}; ${kept}${advice}`, { cause });
      }
      notice(`${url}: ${reason}; trying again`);
      await wait(pause);
      pause *= 2;
    }
  }
}

/** The server's refusal. */
class Refused extends Error {
  readonly mayPass: boolean;
  constructor(status: number) {
    super(`the server answered ${status}`);
    this.mayPass = status >= 500 || status === 408 || status === 429;
  }
}

/** Fetches the bytes that the .part lacks, or the whole file if the server's has changed. */
async function fetchRest(url: string, path: string, { onProgress }: DownloadOptions): Promise<Facts> {
  const before = knownFacts(path);
  const have = before?.tag ? bytesOf(`${path}.part`) : 0;
  if (before && have > 0 && have === before.size) return before;
  const controller = new AbortController();
  let timer = setTimeout(() => controller.abort(), silentMilliseconds);
  try {
    const rest = have > 0 ? await askForRest(url, before!, have, controller.signal) : undefined;
    const response = rest ?? (await ask(url, controller.signal));
    const isRest = rest?.status === 206;
    // A range that was not requested is not a valid answer.
    const isWhole = response.ok && response.status !== 206;
    if (!response.body || !(isRest || isWhole)) throw new Refused(response.status);
    const facts = isRest ? before! : await factsOf(url, response.headers);
    await using file = await openPart(path, isRest ? undefined : facts);
    let done = isRest ? have : 0;
    // Each write ends before the file is closed, so that after an interruption the download resumes at the .part's size.
    for await (const data of response.body) {
      clearTimeout(timer);
      await writeFully(file, data, done);
      done += data.length;
      onProgress?.(done, facts.size ?? done);
      timer = setTimeout(() => controller.abort(), silentMilliseconds);
    }
    await file.sync();
    return facts;
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
}

const ask = (url: string, signal: AbortSignal, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, { headers: { 'accept-encoding': 'identity', ...headers }, signal });

/** Requests the bytes from `have` on, or a changed file from its start. Undefined if the server sends another range. */
async function askForRest(url: string, known: Facts, have: number, signal: AbortSignal): Promise<Response | undefined> {
  const response = await ask(url, signal, { range: `bytes=${have}-`, 'if-range': known.tag! });
  if (response.status !== 206 && response.status !== 416) return response;
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '') ?? [];
  const isSameFile =
    (tagOf(response.headers) ?? known.tag) === known.tag &&
    (total === '*' || known.size === undefined || Number(total) === known.size);
  if (response.status === 206 && Number(start) === have && isSameFile) return response;
  await response.body?.cancel();
}

/** A file's facts by the headers of its answer, and by Hugging Face's redirect to its storage for a large file. */
async function factsOf(url: string, headers: Headers): Promise<Facts> {
  const signal = AbortSignal.timeout(silentMilliseconds);
  const { headers: linked } = await fetch(url, { method: 'HEAD', redirect: 'manual', signal });
  const size = linked.get('x-linked-size') ?? headers.get('content-length');
  return {
    size: size === null ? undefined : Number(size),
    tag: tagOf(headers),
    sha256: sha256In(linked.get('x-linked-etag')) ?? sha256In(headers.get('etag')),
  };
}

/** The value for If-Range. A weak ETag does not guarantee the same bytes. */
function tagOf(headers: Headers): string | undefined {
  const etag = headers.get('etag');
  return (etag?.startsWith('"') ? etag : headers.get('last-modified')) ?? undefined;
}

/** Opens the .part to resume, or empties it for a new file's facts. The facts on disk never describe another file's bytes. */
function openPart(path: string, facts?: Facts): Promise<FileHandle> {
  const part = `${path}.part`;
  if (facts) {
    try {
      mkdirSync(dirname(path), { recursive: true });
    } catch (cause) {
      throw cannotWrite(dirname(path), cause);
    }
    rmSync(`${part}.json`, { force: true });
    writeFileSync(part, '');
    writeFileSync(`${part}.json`, JSON.stringify(facts));
  }
  return open(part, 'r+');
}

async function writeFully(file: FileHandle, data: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < data.length; ) {
    done += (await file.write(data, done, data.length - done, position + done)).bytesWritten;
  }
}

/** Checks the received file and renames it. */
function finish(url: string, path: string, { size, sha256 }: Omit<Facts, 'tag'>, notice: (text: string) => void): void {
  const part = `${path}.part`;
  const have = bytesOf(part);
  if (size !== undefined && have < size) throw new Error(`the download ended after ${have} of ${size} bytes`);
  const found = hashFile(part);
  const isLonger = size !== undefined && have > size;
  if (isLonger || (sha256 !== undefined && found !== sha256)) {
    rmSync(part, { force: true });
    rmSync(`${part}.json`, { force: true });
    const what = isLonger ? `${have} bytes, not ${size}` : `sha256 ${found}, not ${sha256}`;
    throw new Gpt2Error(`the download of ${url} has ${what}; it was deleted: run this again`);
  }
  if (sha256 === undefined) notice(`${url}: the server gives no checksum; the sha256 of the download is ${found}`);
  renameSync(part, path);
  rmSync(`${part}.json`, { force: true });
}

const sha256In = (tag: string | null): string | undefined => /^"?([0-9a-f]{64})"?$/.exec(tag ?? '')?.[1];

function knownFacts(path: string): Facts | undefined {
  try {
    return JSON.parse(readFileSync(`${path}.part.json`, 'utf8')) as Facts;
  } catch {
    return undefined;
  }
}

const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error;
  if (name === 'AbortError') return `no data for ${silentMilliseconds / 1000} s`;
  return cause instanceof Error ? cause.message : message;
}
