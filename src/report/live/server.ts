// The HTTP server of the live page: serves the page and its stream of events, read-only. It opens no file except the run's log, and
// limits every client. guard.ts decides which requests are answered; event-stream.ts sends the events.
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

/** The run that the page shows. `run`: its folder. */
export interface Followed {
  readonly run: string;
  /** Set if the run trains on this machine, whose load the page then shows. `gpu`: CUDA index of the GPU; undefined on a CPU. */
  readonly machine?: { readonly gpu: number | undefined };
}

export interface ServeOptions {
  /** Port to listen at; 0: any free port. */
  readonly port: number;
  /** Address to listen at. Other machines can reach the server unless this is a loopback address. */
  readonly host: string;
  /** Subject of the page. Default: a run. */
  readonly shows?: Shows;
}

/** Most viewers at a time. Each browser tab with the page is a viewer. */
const mostViewers = 200;
/** Most connections. Any more are closed before their requests are read. */
const mostConnections = mostViewers + 56;
/** Most bytes in the first line and headers of a request; a browser sends fewer than 1,000. */
const mostHeaderBytes = 8192;
/** Time in which a client must send a whole request, or it is disconnected. */
const requestMilliseconds = 5000;
/** Time for which a disconnected viewer still counts as a viewer, because it may be reloading the page. */
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
        // TCP keep-alive lets the operating system detect clients that are gone.
        keepAlive: true,
      },
      (request, response) => this.#answer(request, response),
    );
    this.#server.maxConnections = mostConnections;
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      const status = error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request';
      // Destroy the socket after the answer, because the client may never close its end of the connection.
      if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`, () => socket.destroy());
      else socket.destroy();
    });
  }

  /** Opens the port. @throws Gpt2Error with the port or address that is not available */
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
    // Ignore later errors of the server, such as too many open files: each concerns only one client.
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

  /** Sends the state of `kernel watch` to the viewers of a page that was opened for kernels. */
  show(round: KernelRound): void {
    this.#stream.send('kernels', round);
  }

  get isWatched(): boolean {
    return this.#stream.viewers > 0 || performance.now() - this.#left < reloadMilliseconds;
  }

  /** Waits until the page has no viewer. */
  async unwatched(): Promise<void> {
    while (this.isWatched) await passed(200, undefined, { ref: false });
  }

  /** Sends the rest of the log to the viewers, and closes the server within a second. */
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
      // Close the connection after the answer, because the rest of the request is not read.
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

  /** Starts reading the machine's load if there are viewers; stops reading if there are none. */
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
 * The `about` event: facts that the page needs but the log lines lack, and a figure with the reference and without the run's points.
 * @param run the run's folder; viewers see only the last component of its path
 */
export function aboutRun(run: string, start: RunStart) {
  const { configuration } = start;
  const name = basename(resolve(run));
  const series = { train: [], val: [], norm: [], lr: [] };
  const reference = matchingReference(configuration);
  const figure = makeFigure([{ name, configuration, series, events: [start] }], reference ? [reference] : []);
  return {
    // The run's points follow as log lines. Keep only the last table, the configurations: without points the other tables are empty.
    figure: { ...figure, run: undefined, tables: figure.tables.slice(-1) },
    steps: configuration.steps,
    ...measuresOf(start),
  };
}
