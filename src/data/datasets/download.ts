// Downloads a file. The received bytes stay in <path>.part, so that after an interruption or a kill the download resumes by HTTP
// ranges, if the server still has the same file. The received file is compared with the server's checksum.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Gpt2Error, gpt2Error, InterruptedError, orElse, words } from '../../base/errors.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { hashFile, syncToDisk } from '../../base/files/regular-file.ts';
import { writingTo } from '../standing.ts';

const attempts = 6;
const silentMilliseconds = 60_000;

/** Options of a download. */
export interface FetchOptions {
  readonly notice?: ((text: string) => void) | undefined;
  /** Called with the received and the total bytes. For a model, only the bytes of its weights count. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  /** An abort stops the download and keeps the received part; the next download resumes it. */
  readonly signal?: AbortSignal | undefined;
}

export interface DownloadOptions extends FetchOptions {
  /** Milliseconds to wait before the second attempt; the wait doubles before each further attempt. Default 1000. */
  readonly pauseMilliseconds?: number;
  /** Milliseconds without an answer after which the download fails. Default: after 60 s without an answer, another attempt. */
  readonly connectMilliseconds?: number;
  /** The sha256 that the file must have, in hex. Default: the checksum that the server sends, if any. */
  readonly sha256?: string;
  /** The most bytes that the file may have. Default: no limit. */
  readonly most?: number;
  /** Advice at the end of the error if the download fails. */
  readonly advice?: string;
  /** Headers of every request. If the server redirects to another host, `authorization` is not sent there. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A server's description of a file, to detect that the file has changed or is incomplete. */
interface Facts {
  readonly size: number | undefined;
  /** The value for If-Range: a strong ETag, or the time of the last change. */
  readonly tag: string | undefined;
  readonly hash: Hash | undefined;
}

/** A checksum of a file. `blobSha1` is the hash by which git names a file, and Hugging Face identifies small files. */
interface Hash {
  readonly kind: 'sha256' | 'blobSha1';
  readonly value: string;
}

/** The URL of a file of Hugging Face; HF_ENDPOINT names a mirror, as in Hugging Face's tools. */
export const huggingFace = (path: string): string =>
  `${(process.env.HF_ENDPOINT || 'https://huggingface.co').replace(/\/+$/, '')}/${path}`;

/**
 * Downloads `url` to `path`, unless that file exists.
 * @throws Gpt2Error if the download fails (the received part is kept; the error's cause may be a `Refused`), or if the checksum or
 * the length is wrong; InterruptedError if `signal` is aborted
 */
export async function download(url: string, path: string, options: DownloadOptions = {}): Promise<void> {
  if (existsSync(path)) return;
  const { notice = () => {}, signal, advice = words`give your own files with --from` } = options;
  const known: Hash | undefined = options.sha256 ? { kind: 'sha256', value: options.sha256 } : undefined;
  let { pauseMilliseconds: pause = 1000 } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      signal?.throwIfAborted();
      const { size, hash } = await fetchRest(url, path, options);
      finish(url, path, { size, hash: known ?? hash }, notice);
      return;
    } catch (cause) {
      if (cause instanceof Gpt2Error) throw cause;
      if (signal?.aborted)
        throw new InterruptedError(`stopped downloading ${url}; run this again to resume`, { cause });
      const reason = reasonOf(cause);
      const isFinal = cause instanceof Refused ? !cause.mayPass : cause instanceof NoAnswer;
      if (attempt === attempts || isFinal) {
        const kept =
          bytesOf(`${path}.part`) > 0 ? `${path}.part keeps the received part: run this again to resume, or ` : '';
        throw new Gpt2Error(`cannot download ${url}: ${reason}; ${kept}${advice}`, { cause });
      }
      notice(`${url}: ${reason}; trying again`);
      await wait(pause, undefined, { signal }).catch(() => {});
      pause *= 2;
    }
  }
}

export class Refused extends Error {
  readonly status: number;
  /** Hugging Face's code for the failure, such as EntryNotFound, from the header X-Error-Code. */
  readonly code: string | undefined;

  constructor({ status, headers }: Response) {
    super(`the server answered ${status}`);
    this.status = status;
    this.code = headers.get('x-error-code') ?? undefined;
  }

  get mayPass(): boolean {
    return this.status >= 500 || this.status === 408 || this.status === 429;
  }
}

/** The server did not answer in `connectMilliseconds`. */
class NoAnswer extends Error {}

const silence = (milliseconds: number): string => `no data for ${milliseconds / 1000} s`;

/** Fetches the bytes that <path>.part lacks, or the whole file if the server's file has changed. */
async function fetchRest(
  url: string,
  path: string,
  { onProgress, headers, most = Number.POSITIVE_INFINITY, ...options }: DownloadOptions,
): Promise<Facts> {
  const before = knownFacts(path);
  const have = before?.tag ? bytesOf(`${path}.part`) : 0;
  if (before && have > 0 && have === before.size) return before;
  const controller = new AbortController();
  const signal = anyOf(controller.signal, options.signal);
  const { connectMilliseconds } = options;
  const stopSilent = () =>
    setTimeout(() => controller.abort(new Error(silence(silentMilliseconds))), silentMilliseconds);
  let timer =
    connectMilliseconds === undefined
      ? stopSilent()
      : setTimeout(() => controller.abort(new NoAnswer(silence(connectMilliseconds))), connectMilliseconds);
  try {
    const rest = have > 0 ? await askForRest(url, before!, have, { headers, signal }) : undefined;
    const response = rest ?? (await ask(url, { headers, signal }));
    clearTimeout(timer);
    timer = stopSilent();
    const isRest = rest?.status === 206;
    // Status 206, a range, is not a valid answer if no range was requested.
    const isWhole = response.ok && response.status !== 206;
    if (!response.body || !(isRest || isWhole)) throw new Refused(response);
    const facts = isRest ? before! : await factsOf(url, response.headers, { headers, signal });
    await using file = await openPart(path, isRest ? undefined : facts);
    let done = isRest ? have : 0;
    // Every write is awaited before the file closes, so that an interrupted download resumes at the size of <path>.part.
    for await (const data of response.body) {
      clearTimeout(timer);
      if (Math.max(done + data.length, facts.size ?? 0) > most) {
        for (const name of [`${path}.part`, `${path}.part.json`]) rmSync(name, { force: true });
        throw gpt2Error`the download of ${url} has ${facts.size ?? 'more'} bytes, over the limit of ${most} for this file; ${options.advice}`;
      }
      await writeFully(file, data, done);
      done += data.length;
      // The file is longer than announced, and `finish` refuses it.
      if (facts.size !== undefined && done > facts.size) break;
      onProgress?.(done, facts.size ?? done);
      timer = stopSilent();
    }
    await file.sync();
    return facts;
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
}

type Request = Pick<DownloadOptions, 'headers' | 'signal'>;

const anyOf = (...signals: readonly (AbortSignal | undefined)[]): AbortSignal =>
  AbortSignal.any(signals.filter((signal) => signal !== undefined));

const ask = (url: string | URL, { headers, ...rest }: Request & RequestInit): Promise<Response> =>
  fetch(url, { headers: { 'accept-encoding': 'identity', ...headers }, ...rest });

/** Requests the bytes from `have` on, or the whole file if it has changed. Undefined if the server sends another range. */
async function askForRest(
  url: string,
  known: Facts,
  have: number,
  { headers, signal }: Request,
): Promise<Response | undefined> {
  const range = { range: `bytes=${have}-`, 'if-range': known.tag! };
  const response = await ask(url, { headers: { ...headers, ...range }, signal });
  if (response.status !== 206 && response.status !== 416) return response;
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '') ?? [];
  const isSameFile =
    (tagOf(response.headers) ?? known.tag) === known.tag &&
    (total === '*' || known.size === undefined || Number(total) === known.size);
  if (response.status === 206 && Number(start) === have && isSameFile) return response;
  await response.body?.cancel();
}

/** Size, tag and hash of a file, from the headers of the answer to GET and, on Hugging Face, of the hub's redirect to its storage. */
async function factsOf(url: string, headers: Headers, request: Request): Promise<Facts> {
  const { headers: linked } = await askForHead(url, request);
  const size = linked.get('x-linked-size') ?? headers.get('content-length');
  const isOfHub = linked.has('x-repo-commit');
  return {
    size: size === null ? undefined : Number(size),
    tag: tagOf(headers),
    hash: hashIn(linked, isOfHub) ?? hashIn(headers, isOfHub),
  };
}

/**
 * The answer to HEAD that describes a file: the first answer that does not redirect within the host. On Hugging Face, this is the
 * hub's redirect to its storage; a renamed repository first redirects to its new name.
 */
export async function askForHead(url: string, { headers, signal }: Request): Promise<Response> {
  const limited = anyOf(signal, AbortSignal.timeout(silentMilliseconds));
  for (let [at, left] = [new URL(url), 5]; ; left--) {
    const response = await ask(at, { method: 'HEAD', redirect: 'manual', headers, signal: limited });
    const location = response.headers.get('location');
    const next = location === null ? undefined : new URL(location, at);
    const isOfHub = ['x-repo-commit', 'x-linked-etag'].some((name) => response.headers.has(name));
    if (isOfHub || next?.origin !== at.origin || left === 0) return response;
    at = next;
  }
}

/** The value for If-Range: a strong ETag or the time of the last change, because a weak ETag does not guarantee the same bytes. */
function tagOf(headers: Headers): string | undefined {
  const etag = headers.get('etag');
  return (etag?.startsWith('"') ? etag : headers.get('last-modified')) ?? undefined;
}

/** Opens <path>.part to resume or, with `facts`, empties it for a new file. <path>.part.json never describes another file's bytes. */
function openPart(path: string, facts?: Facts): Promise<FileHandle> {
  const part = `${path}.part`;
  if (facts) {
    writingTo(dirname(path), () => makeFolder(dirname(path)));
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

/** Checks the size and the checksum of the received file, and renames it to `path`. @throws Gpt2Error if they differ */
function finish(url: string, path: string, { size, hash }: Omit<Facts, 'tag'>, notice: (text: string) => void): void {
  const part = `${path}.part`;
  const have = bytesOf(part);
  if (size !== undefined && have < size) throw new Error(`the download ended after ${have} of ${size} bytes`);
  const { kind, value } = hash ?? { kind: 'sha256' };
  const found = kind === 'sha256' ? hashFile(part) : blobSha1(part);
  const isLonger = size !== undefined && have > size;
  if (isLonger || (value !== undefined && found !== value)) {
    rmSync(part, { force: true });
    rmSync(`${part}.json`, { force: true });
    const name = kind === 'sha256' ? kind : 'git blob sha1';
    const what = isLonger ? `${have} bytes, not ${size}` : `${name} ${found}, not ${value}`;
    throw gpt2Error`the download of ${url} has ${what}; it was deleted: run this again`;
  }
  if (!hash) notice(`${url}: the server gives no checksum; the sha256 of the download is ${found}`);
  syncToDisk(part);
  renameSync(part, path);
  syncToDisk(dirname(path));
  rmSync(`${part}.json`, { force: true });
}

/** The hash in an ETag: a file's sha256 or, for a small file on Hugging Face, its hash in git. Undefined if the ETag has neither. */
function hashIn(headers: Headers, isOfHub: boolean): Hash | undefined {
  const tag = headers.get('x-linked-etag') ?? headers.get('etag') ?? '';
  const [, weak, value] = /^(W\/)?"?([0-9a-f]{40}|[0-9a-f]{64})"?$/.exec(tag) ?? [];
  if (value === undefined || (weak && !isOfHub)) return undefined;
  if (value.length === 64) return { kind: 'sha256', value };
  return isOfHub ? { kind: 'blobSha1', value } : undefined;
}

function blobSha1(path: string): string {
  const bytes = readFileSync(path);
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}

const knownFacts = (path: string): Facts | undefined =>
  orElse(undefined, () => JSON.parse(readFileSync(`${path}.part.json`, 'utf8')) as Facts);

const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

export function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message : message;
}
