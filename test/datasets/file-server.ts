// A file server on this machine that behaves as Hugging Face's does: sends on to where a file lies, says its sha256, serves
// ranges. And that can be told to break off, to send something else, to say no.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export class FileServer {
  readonly files = new Map<string, Buffer>();
  readonly requests: { method: string; path: string; range: string | undefined }[] = [];
  /** Closes the connection after so many bytes of an answer's body. */
  breakAfter = Number.POSITIVE_INFINITY;
  /** Answers with this status instead. */
  refusal: number | undefined;
  /** Says this sha256 instead of the right one; '' none. */
  sha256: string | undefined;
  readonly #server = createServer((request, response) => this.#answer(request, response));

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(request.url!);
    const { range } = request.headers;
    this.requests.push({ method: request.method!, path, range });
    if (this.refusal !== undefined) return void response.writeHead(this.refusal).end();
    const isStore = path.startsWith('/store');
    const content = this.files.get(isStore ? path.slice('/store'.length) : path);
    if (!content) return void response.writeHead(404).end();
    const sha256 = this.sha256 ?? createHash('sha256').update(content).digest('hex');
    if (!isStore) {
      const linked = sha256 ? { 'x-linked-etag': `"${sha256}"`, 'x-linked-size': String(content.length) } : {};
      return void response.writeHead(302, { location: `/store${path}`, ...linked }).end();
    }
    const etag = `"tag-${createHash('sha256').update(content).digest('hex').slice(0, 8)}"`;
    const isRange = range !== undefined && request.headers['if-range'] === etag;
    const start = isRange ? Number(/^bytes=(\d+)-$/.exec(range)![1]) : 0;
    const body = content.subarray(start);
    response.writeHead(isRange ? 206 : 200, { 'content-length': body.length, etag });
    if (request.method === 'HEAD') return void response.end();
    if (body.length <= this.breakAfter) return void response.end(body);
    response.write(body.subarray(0, this.breakAfter), () => setTimeout(() => response.destroy(), 50));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
