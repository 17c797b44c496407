// Serves the live page: one page, one stream of events, read-only. The server opens no file except the run's log, and limits
// every client. guard.ts decides which requests are answered, event-stream.ts sends the events.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, resolve } from 'node:path';
import { setTimeout as passed } from 'node:timers/promises';
import { Gpt2Error, words } from '../../base/errors.ts';
import { matchingReference } from '../compare/reference.ts';
import { livePage, type Shows } from '../html-report.ts';
import type { KernelRound } from '../kernel-round.ts';
import { watchMachine } from '../machine-load.ts';
import { makeFigure } from '../make-figure.ts';
import { measuresOf } from '../tiles.ts';
import { EventStream } from './event-stream.ts';
import { refusalOf } from './guard.ts';
import { logTailOf, type RunStart } from './log-tail.ts';

/** The run that the page shows. */
export interface Followed {
  readonly run: string;
  /** Present if this machine trains the run: then the page shows the machine's load. `gpu` is the GPU's number in CUDA. */
  readonly machine?: { readonly gpu: number | undefined };
}

export interface ServeOptions {
  /** 0: any free port. */
  readonly port: number;
  /** The address to listen at; other machines cannot reach a loopback address. */
  readonly host: string;
  /** The page's subject. Default: a run. */
  readonly shows?: Shows;
}

/** The largest number of concurrent viewers; each open page of a browser is one. */
const mostViewers = 200;
/** Further connections are closed before their request is read. */
const mostConnections = mostViewers + 56;
/** Limit of a request's line and headers in bytes: a browser sends less than a kilobyte. */
const mostHeaderBytes = 8192;
/** Time for a complete request; then the client is disconnected. */
const requestMilliseconds = 5000;
/** Time to wait for a viewer that left, because it may be reloading the page. */
const reloadMilliseconds = 3000;

export class LiveServer {
  readonly #server: Server;
  readonly #stream = new EventStream();
  readonly #host: string;
  readonly #page: Buffer;
  readonly #headers: Readonly<Record<string, string>>;
  #followed: Followed | undefined;
  #stopWatching: (() => void) | undefined;
  #left = Number.NEGATIVE_INFINITY;

  private constructor({ host, shows }: ServeOptions) {
    const { html, policy } = livePage(shows);
    this.#page = Buffer.from(html);
    this.#headers = {
      'Content-Security-Policy': `${policy}; frame-ancestors 'none'`,
      'X-Content-Type-Options': 'nosniff',
      'X-Frame-Options': 'DENY',
      'Referrer-Policy': 'no-referrer',
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cache-Control': 'no-store',
    };
    this.#host = host;
    this.#server = createServer(
      {
        maxHeaderSize: mostHeaderBytes,
        headersTimeout: requestMilliseconds,
        requestTimeout: requestMilliseconds,
        keepAliveTimeout: requestMilliseconds,
        connectionsCheckingInterval: 1000,
        // The operating system checks whether the client still exists.
        keepAlive: true,
      },
      (request, response) => this.#answer(request, response),
    );
    this.#server.maxConnections = mostConnections;
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      const status = error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request';
      // The client may never close its side.
      if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`, () => socket.destroy());
      else socket.destroy();
    });
  }

  /** @throws Gpt2Error naming the port or the address that is not available */
  static async open(options: ServeOptions): Promise<LiveServer> {
    const { port, host } = options;
    const live = new LiveServer(options);
    await new Promise<void>((resolve, reject) => {
      live.#server.once('error', (error: NodeJS.ErrnoException) => {
        live.#stream.close();
        reject(cannotListen(error, options));
      });
      live.#server.listen({ port, host, exclusive: true }, resolve);
    });
    // Later errors (too many open files) concern a client, not the server.
    live.#server.removeAllListeners('error').on('error', () => {});
    return live;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://${this.#host.includes(':') ? `[${this.#host}]` : this.#host}:${port}/`;
  }

  follow(followed: Followed): void {
    const { run } = followed;
    this.#followed = followed;
    this.#stream.follow(logTailOf(run), (start) => aboutRun(run, start));
    this.#watch();
  }

  /** Shows kernels; the page must have been opened for kernels. */
  show(round: KernelRound): void {
    this.#stream.send('kernels', round);
  }

  get isWatched(): boolean {
    return this.#stream.viewers > 0 || performance.now() - this.#left < reloadMilliseconds;
  }

  /** Waits until nobody watches. */
  async unwatched(): Promise<void> {
    while (this.isWatched) await passed(200, undefined, { ref: false });
  }

  /** Sends viewers the rest of the log, and ends within a second. */
  async close(): Promise<void> {
    this.#stopWatching?.();
    this.#stream.close();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeIdleConnections();
    const last = setTimeout(() => this.#server.closeAllConnections(), 1000);
    await closed;
    clearTimeout(last);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    for (const [name, value] of Object.entries(this.#headers)) response.setHeader(name, value);
    const isFull = request.url === '/events' && this.#stream.viewers >= mostViewers;
    const full = isFull ? { status: 503, text: 'too many viewers' } : undefined;
    const refusal = refusalOf(request, this.#host, ['/', '/events']) ?? full;
    if (refusal) {
      // The rest of the request is not read.
      response.setHeader('Connection', 'close');
      if (refusal.status === 405) response.setHeader('Allow', 'GET, HEAD');
      const body = Buffer.from(`${refusal.text}\n`);
      const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': body.length };
      response.writeHead(refusal.status, headers).end(body);
    } else if (request.url === '/') {
      response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Content-Length': this.#page.length });
      response.end(this.#page);
    } else {
      response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
      if (request.method === 'HEAD') return void response.end();
      this.#stream.add(response, request.headers['last-event-id'] as string | undefined);
      response.on('close', () => {
        this.#left = performance.now();
        this.#watch();
      });
      this.#watch();
    }
  }

  /** Queries the driver about the GPU only while there are viewers. */
  #watch(): void {
    const machine = this.#stream.viewers > 0 ? this.#followed?.machine : undefined;
    if (machine) {
      this.#stopWatching ??= watchMachine(machine.gpu, (reading) => this.#stream.send('machine', reading));
    } else {
      this.#stopWatching?.();
      this.#stopWatching = undefined;
    }
  }
}

function cannotListen(cause: NodeJS.ErrnoException, { port, host }: ServeOptions): Gpt2Error {
  const reasons: Record<string, string> = {
    EADDRINUSE: words`port ${port} is in use: choose another one, or 0 for any free port (--serve PORT, or report --port PORT)`,
    EACCES: words`port ${port} is reserved for root: choose 1024 or higher (--serve PORT, or report --port PORT)`,
    EADDRNOTAVAIL: words`${host} is not an address of this machine: choose one with --serve-host`,
    ENOTFOUND: words`${host} is not an address of this machine: choose one with --serve-host`,
  };
  return new Gpt2Error(`cannot serve the live page: ${reasons[cause.code ?? ''] ?? cause.message}`, { cause });
}

export type About = ReturnType<typeof aboutRun>;

/**
 * Facts about a run that the page needs and the log lacks.
 * @param run the run's folder; viewers see only its last path component
 */
export function aboutRun(run: string, start: RunStart) {
  const { configuration } = start;
  const name = basename(resolve(run));
  const series = { train: [], val: [], norm: [], lr: [] };
  const reference = matchingReference(configuration);
  const figure = makeFigure([{ name, configuration, series, events: [start] }], reference ? [reference] : []);
  return {
    // The run is the last curve, sent without points. Without points only the last table, the configurations, has content.
    figure: { ...figure, run: undefined, tables: figure.tables.slice(-1) },
    steps: configuration.steps,
    ...measuresOf(start),
  };
}
