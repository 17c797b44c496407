// Receives the server's events (../live/event-stream.ts), and reconnects after a failure.

/** `closed`: the server announced its end; `lost`: no answer from the server. */
export type Connection = 'open' | 'closed' | 'lost';

/** Silence after which the page reconnects: the server sends an event every 5 s, so the connection must be broken. */
const silentMilliseconds = 20_000;
const againMilliseconds = 3000;

/**
 * @param take a handler for the data of each event, by the event's name
 * @param begin called before the first event of a new stream, but not when the browser itself reconnects and continues
 * @param news called after every event and failure
 */
export function listen(
  take: Readonly<Record<string, (data: string) => void>>,
  { begin, news }: { readonly begin?: () => void; readonly news: (connection: Connection) => void },
): void {
  let connection: Connection = 'lost';
  let heard = performance.now();
  let source: EventSource | undefined;
  const connect = () => {
    heard = performance.now();
    let hasBegun = false;
    source?.close();
    const stream = new EventSource('/events');
    source = stream;
    const all: typeof take = { idle: () => {}, closed: () => {}, ...take };
    for (const [name, use] of Object.entries(all)) {
      stream.addEventListener(name, ({ data }: MessageEvent<string>) => {
        heard = performance.now();
        // Call `begin` only when an event arrives, so that the page keeps its contents while there is no server.
        if (!hasBegun) begin?.();
        hasBegun = true;
        connection = name === 'closed' ? 'closed' : 'open';
        use(data);
        news(connection);
      });
    }
    stream.addEventListener('error', () => {
      if (connection === 'open') connection = 'lost';
      news(connection);
      // The server refused the stream (too many viewers, another program at the port): the browser does not retry by itself.
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, againMilliseconds);
    });
  };
  setInterval(() => {
    if (performance.now() - heard > silentMilliseconds) connect();
  }, 1000);
  connect();
}
