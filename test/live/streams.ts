// A log that tests write, and a viewer of its stream that holds what a browser would.
import { appendFileSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { logPath } from '../../src/runs/paths.ts';
import { formatEvent, type RunEvent } from '../../src/runs/schema.ts';

export class WrittenLog {
  readonly run: string;

  constructor(run: string) {
    this.run = run;
    mkdirSync(run, { recursive: true });
    writeFileSync(logPath(run), '');
  }

  write(...events: RunEvent[]): void {
    appendFileSync(logPath(this.run), events.map(formatEvent).join(''));
  }

  /** Bytes that follow no line break yet, or are no event. */
  writeRaw(text: string | Buffer): void {
    appendFileSync(logPath(this.run), text);
  }

  cut(bytes: number): void {
    truncateSync(logPath(this.run), bytes);
  }

  get bytes(): number {
    return readFileSync(logPath(this.run)).length;
  }

  get lines(): string[] {
    return readFileSync(logPath(this.run), 'utf8').split('\n').slice(0, -1);
  }
}

/** The events that an EventSource would have received: see https://html.spec.whatwg.org/multipage/server-sent-events.html */
export class StreamViewer {
  /** Events of the log, as the page would have them. */
  lines: string[] = [];
  /** Names of the other events, in order. */
  readonly told: string[] = [];
  readonly data: Record<string, unknown> = {};
  lastEventId: string | undefined;
  status: number | undefined;
  isClosed = false;
  readonly #close: () => void;

  constructor(url: string, lastEventId?: string) {
    this.lastEventId = lastEventId;
    const headers = lastEventId === undefined ? {} : { 'Last-Event-ID': lastEventId };
    const request = get(new URL('/events', url), { headers, agent: false }, (response) => {
      this.status = response.statusCode;
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          this.#hear(text.slice(0, end));
          text = text.slice(end + 2);
        }
      });
      response.on('close', () => {
        this.isClosed = true;
      });
      response.on('error', () => {});
    });
    request.on('error', () => {
      this.isClosed = true;
    });
    this.#close = () => request.destroy();
  }

  close(): void {
    this.#close();
  }

  #hear(message: string): void {
    const fields = message.split('\n').map((line) => [line.split(': ', 1)[0]!, line.slice(line.indexOf(': ') + 2)]);
    const data = fields.filter(([name]) => name === 'data').map(([, value]) => value!);
    const event = fields.find(([name]) => name === 'event')?.[1];
    this.lastEventId = fields.find(([name]) => name === 'id')?.[1] ?? this.lastEventId;
    if (data.length === 0) return;
    if (event === undefined) this.lines.push(...data);
    else {
      this.told.push(event);
      this.data[event] = JSON.parse(data.join('\n'));
    }
    if (event === 'reset') this.lines = [];
  }
}
