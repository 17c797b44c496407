// A file server on this machine that behaves as Hugging Face's does: it redirects to a file, names its sha256, serves ranges. Tests
// can make it break off, serve ranges wrongly, send something else, or refuse.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { listening } from '../support/until.ts';

export class FileServer {
  readonly files = new Map<string, Buffer>();
  readonly requests: { method: string; path: string; range?: string; authorization?: string }[] = [];
  /** Closes the connection after so many bytes of an answer's body. */
  breakAfter = Number.POSITIVE_INFINITY;
  /** Awaited before the connection is closed. @param sent bytes of the file that the client has by then */
  beforeBreak: (sent: number) => Promise<unknown> = () => setTimeout(50);
  /** Bytes of bodies sent, in all answers. */
  sent = 0;
  /** How ranges are answered; `blind` to If-Range. */
  ranges: 'right' | 'ignored' | 'shifted' | 'refused' | 'blind' = 'right';
  /** The validator that identifies a content. */
  validator: 'etag' | 'last-modified' | 'weak' = 'etag';
  /** Answers with this status instead. */
  refusal: number | undefined;
  /** Says this size of a file, instead of the right one, before it sends on to where the file lies. */
  size: number | undefined;
  /** Says this sha256 instead of the right one; '' none. */
  sha256: string | undefined;
  readonly #server = createServer((request, response) => this.#answer(request, response));

  async start(): Promise<string> {
    return `http://127.0.0.1:${await listening(this.#server)}`;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(request.url!);
    const { range, authorization } = request.headers;
    this.requests.push({ method: request.method!, path, range, authorization });
    if (this.refusal !== undefined) return void response.writeHead(this.refusal).end();
    const isStore = path.startsWith('/store');
    const content = this.files.get(isStore ? path.slice('/store'.length) : path);
    if (!content) return void response.writeHead(404).end();
    const sha256 = this.sha256 ?? createHash('sha256').update(content).digest('hex');
    if (!isStore) {
      const linked = sha256
        ? { 'x-linked-etag': `"${sha256}"`, 'x-linked-size': String(this.size ?? content.length) }
        : {};
      return void response.writeHead(302, { location: `/store${path}`, ...linked }).end();
    }
    const validators = validatorsOf(content, this.validator);
    const knows =
      this.ranges === 'blind' || Object.values(validators).some((tag) => tag === request.headers['if-range']);
    const isRange = range !== undefined && knows && this.ranges !== 'ignored';
    if (isRange && this.ranges === 'refused') return void response.writeHead(416).end();
    const asked = isRange ? Number(/^bytes=(\d+)-$/.exec(range)![1]) : 0;
    const start = this.ranges === 'shifted' ? Math.max(0, asked - 1000) : asked;
    const body = content.subarray(start);
    const headers = { 'content-length': body.length, ...validators };
    if (isRange) {
      const places = `bytes ${start}-${content.length - 1}/${content.length}`;
      response.writeHead(206, { ...headers, 'content-range': places });
    } else response.writeHead(200, headers);
    if (request.method === 'HEAD') return void response.end();
    const count = Math.min(body.length, this.breakAfter);
    this.sent += count;
    if (count === body.length) return void response.end(body);
    const end = () => response.destroy();
    response.write(body.subarray(0, count), () => void this.beforeBreak(start + count).then(end));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Different contents have different ones; a weak ETag is the same for all. */
function validatorsOf(content: Buffer, kind: FileServer['validator']): Record<string, string> {
  if (kind === 'weak') return { etag: 'W/"any"' };
  const hash = createHash('sha256').update(content).digest();
  if (kind === 'etag') return { etag: `"tag-${hash.toString('hex', 0, 4)}"` };
  return { 'last-modified': new Date(hash.readUInt32LE() * 1000).toUTCString() };
}
