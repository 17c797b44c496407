// Streams a run as server-sent events to any number of viewers. The log is the queue: a viewer is only a position in the log, so
// a slow viewer costs one message of memory, and one that reconnects continues where it was. guard.ts decides which requests are
// answered; page/page-events.ts reads the events, which docs/runs.md lists.
import type { ServerResponse } from 'node:http';
import { beginning, type LogTail, type Position, type RunStart } from './log-tail.ts';

interface Viewer {
  readonly response: ServerResponse;
  position: Position;
  /** The time, in milliseconds, since which the last message has waited to be sent; undefined: it was sent. */
  blockedAt: number | undefined;
}

/** Short enough to look immediate, long enough that millisecond steps share a message. */
const lookMilliseconds = 200;
/** The interval of `idle` events; routers cut connections that are silent for a minute. */
const idleMilliseconds = 5000;
/** A viewer that reads nothing for this long is gone or asleep; an awake one reconnects by itself. */
const blockedMilliseconds = 30_000;

export class EventStream {
  readonly #viewers = new Set<Viewer>();
  #tail: LogTail | undefined;
  /** The last event of each name, which is repeated to viewers that connect. */
  readonly #last = new Map<string, object | undefined>();
  readonly #timers = [setInterval(() => this.#sendIdle(), idleMilliseconds)];

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Follows a log from now on. @param about makes the `about` event when the run starts */
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

  /** Streams to a viewer from the position of a Last-Event-ID; without a valid one from the beginning. */
  add(response: ServerResponse, lastEventId: string | undefined): void {
    const viewer: Viewer = { response, position: parseId(lastEventId), blockedAt: undefined };
    this.#viewers.add(viewer);
    response.on('close', () => this.#viewers.delete(viewer));
    // A broken connection also emits 'close'.
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

  /** Sends an event that is not from the log to all viewers, now and when they connect. */
  send(event: 'about' | 'machine' | 'kernels', data: object | undefined): void {
    this.#last.set(event, data);
    for (const viewer of this.#viewers) this.#sendEvent(viewer, event, data);
  }

  /** Sends the rest of the log and ends all streams. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    for (const viewer of this.#viewers) {
      this.#sendLines(viewer);
      this.#sendEvent(viewer, 'closed', {});
      viewer.response.end();
    }
  }

  /** Sends lines until the connection takes no more; 'drain' continues. */
  #sendLines(viewer: Viewer): void {
    while (viewer.blockedAt === undefined) {
      const lines = this.#tail?.after(viewer.position);
      if (!lines) return;
      viewer.position = lines === 'cut' ? beginning : lines.end;
      const position = { id: viewer.position };
      this.#send(viewer, lines === 'cut' ? message({ event: 'reset' }, '{}') : message(position, lines.text));
    }
  }

  /** A blocked viewer is skipped, because these events are repeated anyway. */
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

/** An event as text. Every line of the data begins with `data:`, for any line end. */
function message({ event, id }: { event?: string; id?: Position }, data: string): string {
  const head = [...(event ? [`event: ${event}`] : []), ...(id ? [`id: ${id.offset}-${id.mark}`] : [])];
  return `${[...head, ...data.split(/\r\n|\r|\n/).map((line) => `data: ${line}`)].join('\n')}\n\n`;
}

function parseId(id: string | undefined): Position {
  const [, offset, mark] = /^(\d{1,15})-([0-9a-f]{16})$/.exec(id ?? '') ?? [];
  return offset !== undefined && mark !== undefined ? { offset: Number(offset), mark } : beginning;
}
