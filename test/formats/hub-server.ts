// The Hugging Face hub on this machine: repositories of models with commits, answers to HEAD and GET of /OWNER/NAME/resolve/REVISION/FILE
// with its headers and refusals. Small files are in git; weights are in a storage on another host, a FileServer.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest';
import { exportModel, train } from '../../src/index.ts';
import { FileServer } from '../datasets/file-server.ts';
import { Workplace, workplace } from '../support/cli.ts';
import { listening } from '../support/until.ts';

export type Files = Readonly<Record<string, Buffer>>;

/** The model that `hubOfEach` makes in the folder `made`, and serves to each test as `repository` in `commit`. */
export const repository = 'someone/tiny-gpt2';
export const made = new Workplace();
export let files: Files;
export let hub: HubServer;
export let commit: string;

/** A hub for each test of a file. @returns the test's folder, which has the cache */
export function hubOfEach(): Workplace {
  const place = workplace('each');
  beforeAll(async () => {
    files = await tinyFiles(made);
  });
  afterAll(() => made[Symbol.dispose]());
  beforeEach(async () => {
    hub = new HubServer();
    await hub.start();
    commit = hub.commit(repository, files);
    for (const [name, value] of Object.entries(hub.environment(place))) vi.stubEnv(name, value);
  });
  afterEach(() => hub.close());
  return place;
}

/** Trains a GPT-2 of 1.6 million parameters, with GPT-2's vocabulary, and exports it to the folder `local`. */
async function tinyFiles(place: Workplace): Promise<Files> {
  const sizes = { layers: 2, channels: 32, heads: 2, context: 48, sequence: 16, batch: 2, device: 'cpu' };
  const [data, out, folder] = [place.data({ vocabulary: 50257 }), place.path('run'), place.path('local')];
  await train({ ...sizes, data, steps: 8, valEvery: 0, sampleEvery: 0, learningRate: 1e-2, out });
  await exportModel({ model: out, format: 'hf', out: folder });
  return filesIn(folder);
}

export const filesIn = (folder: string): Files =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));

interface Repository {
  /** By commit. */
  readonly commits: Map<string, Files>;
  /** Commits by branch or tag. */
  readonly revisions: Map<string, string>;
  /** Refused without `token`. */
  readonly access?: 'gated' | 'private';
}

export class HubServer {
  /** Where weights lie. */
  readonly storage = new FileServer();
  readonly repositories = new Map<string, Repository>();
  /** New names by old ones. */
  readonly renamed = new Map<string, string>();
  readonly requests: { method: string; path: string; authorization: string | undefined }[] = [];
  /** The token that may read every repository. */
  readonly token = 'hf_secret';
  /** Hashes said instead of the right ones, by file. */
  readonly hashes: Record<string, string> = {};
  /** Whether small files are sent by the address asked for, and not by one that it redirects to. */
  sendsAtOnce = false;
  /** The status of every answer instead. */
  refusal: number | undefined;
  url = '';
  #storageUrl = '';
  readonly #server = createServer((request, response) => this.#answer(request, response));

  async start(): Promise<void> {
    this.#storageUrl = (await this.storage.start()).replace('127.0.0.1', 'localhost');
    this.url = `http://127.0.0.1:${await listening(this.#server)}`;
  }

  /** Adds a commit to the branch main of a repository and returns its name. */
  commit(repository: string, files: Files, access?: Repository['access']): string {
    const known = this.repositories.get(repository) ?? { commits: new Map(), revisions: new Map(), access };
    this.repositories.set(repository, known);
    const commit = createHash('sha1').update(`${repository} ${known.commits.size}`).digest('hex');
    known.commits.set(commit, files);
    known.revisions.set('main', commit);
    return commit;
  }

  /** The environment of a program that uses this hub, and a cache in a folder. */
  environment(place: Workplace): Record<string, string> {
    return { HF_ENDPOINT: this.url, HF_TOKEN: '', XDG_CACHE_HOME: place.path('cache') };
  }

  /** Paths of GET requests to the storage. */
  get downloads(): readonly string[] {
    return this.storage.requests.filter(({ method }) => method === 'GET').map(({ path }) => path);
  }

  #answer({ method, url, headers: { authorization } }: IncomingMessage, response: ServerResponse): void {
    const path = url!;
    this.requests.push({ method: method!, path, authorization });
    if (this.refusal !== undefined) return void response.writeHead(this.refusal).end();
    const parts = /^(?:\/api\/resolve-cache\/models)?\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path);
    if (!parts) return void response.writeHead(404).end();
    const [, name, revision, file] = parts;
    const newName = this.renamed.get(name!);
    if (newName) return void response.writeHead(307, { location: path.replace(name!, newName) }).end();
    const found = this.#find({ name: name!, asked: decodeURIComponent(revision!), file: file! }, authorization);
    if ('code' in found) return void response.writeHead(found.status, { 'x-error-code': found.code }).end();
    const { commit, content } = found;
    const isLarge = /\.(safetensors|bin)$/.test(file!);
    const hash = this.hashes[file!] ?? (isLarge ? sha256(content) : blobSha1(content));
    const linked = { 'x-repo-commit': commit, 'x-linked-etag': `"${hash}"`, 'x-linked-size': content.length };
    if (isLarge) {
      this.storage.files.set(`/${sha256(content)}`, content);
      const location = `${this.#storageUrl}/store/${sha256(content)}`;
      return void response.writeHead(302, { ...linked, location }).end();
    }
    if (!path.startsWith('/api') && !this.sendsAtOnce) {
      const location = `/api/resolve-cache/models${path.replace(revision!, commit)}`;
      return void response.writeHead(307, { ...linked, location }).end('Temporary Redirect');
    }
    const headers = { 'x-repo-commit': commit, etag: `"${hash}"`, 'content-length': content.length };
    response.writeHead(200, headers).end(method === 'HEAD' ? undefined : content);
  }

  /** A file, or the refusal of the hub, which is 401 for whatever one may not know without a token. */
  #find(
    { name, asked, file }: { name: string; asked: string; file: string },
    authorization: string | undefined,
  ): { commit: string; content: Buffer } | { status: number; code: string } {
    const repository = this.repositories.get(name);
    const mayRead = authorization === `Bearer ${this.token}`;
    if (!repository || (repository.access === 'private' && !mayRead)) {
      return { status: authorization ? 404 : 401, code: 'RepoNotFound' };
    }
    if (repository.access === 'gated' && !mayRead) return { status: authorization ? 403 : 401, code: 'GatedRepo' };
    const commit = repository.revisions.get(asked) ?? asked;
    const files = repository.commits.get(commit);
    if (!files) return { status: 404, code: 'RevisionNotFound' };
    const content = files[file];
    return content ? { commit, content } : { status: 404, code: 'EntryNotFound' };
  }

  /** Ends the hub: it cannot be reached from here on. */
  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await this.storage.close();
  }
}

const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex');
const blobSha1 = (content: Buffer): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
