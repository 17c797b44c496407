// Streams a run's log to any number of viewers (browser tabs) as server-sent events; docs/runs.md lists the events. There are no queues:
// for each viewer the server only keeps a position in the log. A slow viewer costs one message of memory, and a viewer that reconnects
// continues at its position. guard.ts decides which requests are answered; page/page-events.ts receives the events.
import type { ServerResponse } from 'node:http';
import { beginning, type LogTail, type Position, type RunStart } from './log-tail.ts';

interface Viewer {
  readonly response: ServerResponse;
  position: Position;
  /** Time (performance.now, ms) since which the connection accepts no more data; undefined while it accepts data. */
  blockedAt: number | undefined;
}

/** Interval of reading new lines of the log: short enough to seem immediate, long enough to send many short steps at once. */
const lookMilliseconds = 200;
/** Interval of `idle` events, because routers cut a connection that is silent for a minute. */
const idleMilliseconds = 5000;
/** A viewer that accepts no data for this time is disconnected: its browser is gone or asleep. A browser that wakes up reconnects. */
const blockedMilliseconds = 30_000;

export class EventStream {
  readonly #viewers = new Set<Viewer>();
  #tail: LogTail | undefined;
  /** The last data of each event that is not from the log. Every new viewer gets these events. */
  readonly #last = new Map<string, object | undefined>();
  readonly #timers = [setInterval(() => this.#sendIdle(), idleMilliseconds)];

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Starts to send the lines of a log, including later ones. @param about makes the `about` event from a start of the run */
  follow(tail: LogTail, about: (start: RunStart) => object): void {
    this.#tail = tail;
    let start: RunStart | undefined;
    const look = () => {
      if (!tail.look()) return;
      if (tail.start !== start) {
        start = tail.start;
        this.send('about', start && about(start));
      }
      for (const viewer of this.#viewers) this.#sendLines(viewer);
    };
    look();
    this.#timers.push(setInterval(look, lookMilliseconds));
  }

  /** Starts streaming to a viewer, from the position in its header Last-Event-ID or, if that is not valid, from the log's beginning. */
  add(response: ServerResponse, lastEventId: string | undefined): void {
    const viewer: Viewer = { response, position: parseId(lastEventId), blockedAt: undefined };
    this.#viewers.add(viewer);
    response.on('close', () => this.#viewers.delete(viewer));
    // Ignore errors: a broken connection also emits 'close', which removes the viewer.
    response.on('error', () => {});
    response.on('drain', () => {
      viewer.blockedAt = undefined;
      this.#sendLines(viewer);
    });
    this.#send(viewer, 'retry: 2000\n\n');
    for (const [event, data] of this.#last) this.#sendEvent(viewer, event, data);
    this.#sendEvent(viewer, 'idle', this.#idle());
    this.#sendLines(viewer);
  }

  /** Sends an event that is not from the log to all viewers, and later to each new viewer. */
  send(event: 'about' | 'machine' | 'kernels', data: object | undefined): void {
    this.#last.set(event, data);
    for (const viewer of this.#viewers) this.#sendEvent(viewer, event, data);
  }

  /** Sends the rest of the log to all viewers, and ends their streams. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    for (const viewer of this.#viewers) {
      this.#sendLines(viewer);
      this.#sendEvent(viewer, 'closed', {});
      viewer.response.end();
    }
  }

  /** Sends log lines until the connection accepts no more data. Its 'drain' event then calls this method again. */
  #sendLines(viewer: Viewer): void {
    while (viewer.blockedAt === undefined) {
      const lines = this.#tail?.after(viewer.position);
      if (!lines) return;
      viewer.position = lines === 'cut' ? beginning : lines.end;
      const position = { id: viewer.position };
      this.#send(viewer, lines === 'cut' ? message({ event: 'reset' }, '{}') : message(position, lines.text));
    }
  }

  /** Sends an event that is not from the log. A blocked viewer misses `machine` and `idle` events, because the next ones come soon. */
  #sendEvent(viewer: Viewer, event: string, data: object | undefined): void {
    const isFleeting = event === 'machine' || event === 'idle';
    if (data === undefined || (isFleeting && viewer.blockedAt !== undefined)) return;
    this.#send(viewer, message({ event }, JSON.stringify(data)));
  }

  #sendIdle(): void {
    for (const viewer of this.#viewers) {
      const { response, blockedAt } = viewer;
      if (blockedAt !== undefined && performance.now() - blockedAt > blockedMilliseconds) response.destroy();
      else this.#sendEvent(viewer, 'idle', this.#idle());
    }
  }

  #idle(): object {
    const written = this.#tail?.written;
    return { seconds: written ? Math.max(0, (Date.now() - written) / 1000) : null };
  }

  #send(viewer: Viewer, text: string): void {
    if (!viewer.response.write(text)) viewer.blockedAt ??= performance.now();
  }
}

/** An event in the format of server-sent events. Each line of `data`, whatever line break ends it, is sent as `data: ...`. */
function message({ event, id }: { event?: string; id?: Position }, data: string): string {
  const head = [...(event ? [`event: ${event}`] : []), ...(id ? [`id: ${id.offset}-${id.mark}`] : [])];
  return `${[...head, ...data.split(/\r\n|\r|\n/).map((line) => `data: ${line}`)].join('\n')}\n\n`;
}

function parseId(id: string | undefined): Position {
  const [, offset, mark] = /^(\d{1,15})-([0-9a-f]{16})$/.exec(id ?? '') ?? [];
  return offset !== undefined && mark !== undefined ? { offset: Number(offset), mark } : beginning;
}
