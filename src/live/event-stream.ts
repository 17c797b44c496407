// A run as server-sent events, for any number of viewers. The log itself is the queue: a viewer is no more than a position
// in it, so that a slow one costs one message of memory, and a viewer that comes back goes on where it was. What may ask
// at all is left to server.ts, what the page makes of it to ../report/page/live.js.
//
//   (no name)  lines of the log; the id is the position after them
//   anew       what was sent so far is no longer the log (a resume cut it): the whole log follows
//   about      what the page knows of the run besides its log
//   machine    memory and temperature now
//   quiet      seconds since the log was written last; comes all the time, so that silence is a broken connection
//   closed     the server ends
import type { ServerResponse } from 'node:http';
import { beginning, type LogTail, type Position, type RunStart } from './log-tail.ts';

interface Viewer {
  readonly response: ServerResponse;
  position: Position;
  /** Since when the last message waits to be taken, in milliseconds; undefined: it is taken. */
  blockedAt: number | undefined;
}

/** Often enough to look like at once, seldom enough that a step of a millisecond costs no message of its own. */
const lookMilliseconds = 200;
/** How often viewers are told how quiet it is; connections that carry nothing are cut by routers after a minute. */
const quietMilliseconds = 5000;
/** A viewer that takes nothing for so long is gone, or asleep: it will come back by itself. */
const blockedMilliseconds = 30_000;

export class EventStream {
  readonly #viewers = new Set<Viewer>();
  #tail: LogTail | undefined;
  #about: object | undefined;
  #machine: object | undefined;
  readonly #timers = [setInterval(() => this.#tellQuiet(), quietMilliseconds)];

  get viewers(): number {
    return this.#viewers.size;
  }

  /** Follows a log from here on. @param about what is said of a start of the run */
  follow(tail: LogTail, about: (start: RunStart) => object): void {
    this.#tail = tail;
    let start: RunStart | undefined;
    const look = () => {
      if (!tail.look()) return;
      if (tail.start !== start) {
        start = tail.start;
        this.#about = start && about(start);
        this.#tellAll('about', this.#about);
      }
      for (const viewer of this.#viewers) this.#sendLines(viewer);
    };
    look();
    this.#timers.push(setInterval(look, lookMilliseconds));
  }

  /** Fills an answer with the stream from the position of a Last-Event-ID; without one, or with one that is nothing, from the beginning. */
  add(response: ServerResponse, lastEventId: string | undefined): void {
    const viewer: Viewer = { response, position: parseId(lastEventId), blockedAt: undefined };
    this.#viewers.add(viewer);
    response.on('close', () => this.#viewers.delete(viewer));
    // A connection that breaks is closed, and that is all there is to say of it.
    response.on('error', () => {});
    response.on('drain', () => {
      viewer.blockedAt = undefined;
      this.#sendLines(viewer);
    });
    this.#send(viewer, 'retry: 2000\n\n');
    this.#tell(viewer, 'about', this.#about);
    this.#tell(viewer, 'machine', this.#machine);
    this.#tell(viewer, 'quiet', this.#quiet());
    this.#sendLines(viewer);
  }

  /** Tells all viewers of the machine, and those that come later. */
  tellMachine(readings: object): void {
    this.#machine = readings;
    this.#tellAll('machine', readings);
  }

  /** Sends what the log has and ends all streams. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    for (const viewer of this.#viewers) {
      this.#sendLines(viewer);
      this.#tell(viewer, 'closed', {});
      viewer.response.end();
    }
  }

  /** Lines until the connection takes no more; 'drain' goes on then. */
  #sendLines(viewer: Viewer): void {
    while (viewer.blockedAt === undefined) {
      const lines = this.#tail?.after(viewer.position);
      if (!lines) return;
      viewer.position = lines === 'cut' ? beginning : lines.end;
      this.#send(
        viewer,
        lines === 'cut' ? message({ event: 'anew' }, '{}') : message({ id: viewer.position }, lines.text),
      );
    }
  }

  #tellAll(event: string, data: object | undefined): void {
    for (const viewer of this.#viewers) this.#tell(viewer, event, data);
  }

  /** A message that is not of the log; a viewer that is behind does without, except for what comes once. */
  #tell(viewer: Viewer, event: string, data: object | undefined): void {
    const isFleeting = event === 'machine' || event === 'quiet';
    if (data === undefined || (isFleeting && viewer.blockedAt !== undefined)) return;
    this.#send(viewer, message({ event }, JSON.stringify(data)));
  }

  #tellQuiet(): void {
    for (const { response, blockedAt } of this.#viewers) {
      if (blockedAt !== undefined && performance.now() - blockedAt > blockedMilliseconds) response.destroy();
    }
    this.#tellAll('quiet', this.#quiet());
  }

  #quiet(): object {
    const written = this.#tail?.written;
    return { seconds: written ? Math.max(0, (Date.now() - written) / 1000) : null };
  }

  #send(viewer: Viewer, text: string): void {
    if (!viewer.response.write(text)) viewer.blockedAt ??= performance.now();
  }
}

/** Every line of the data becomes one of its own, whatever breaks lines in it. */
function message({ event, id }: { event?: string; id?: Position }, data: string): string {
  const head = [...(event ? [`event: ${event}`] : []), ...(id ? [`id: ${id.offset}-${id.mark}`] : [])];
  return `${[...head, ...data.split(/\r\n|\r|\n/).map((line) => `data: ${line}`)].join('\n')}\n\n`;
}

function parseId(id: string | undefined): Position {
  const [, offset, mark] = /^(\d{1,15})-([0-9a-f]{16})$/.exec(id ?? '') ?? [];
  return offset !== undefined && mark !== undefined ? { offset: Number(offset), mark } : beginning;
}
