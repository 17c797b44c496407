// Listens to the server's events (../live/event-stream.ts), and reconnects.

/** `closed`: the server has ended; `lost`: the server is silent. */
export type Connection = 'open' | 'closed' | 'lost';

/** The server sends something every five seconds; after this long the connection is broken, even if the browser keeps it open. */
const silentMilliseconds = 20_000;
const againMilliseconds = 3000;

/**
 * @param take handlers of each event's data, by event name
 * @param begin called before the first event of a stream from the beginning, but not when the browser reconnects and continues
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
        // Not earlier: without a server the page keeps its contents.
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
      // The server refused (too many viewers, another server), and the browser does not retry.
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, againMilliseconds);
    });
  };
  setInterval(() => {
    if (performance.now() - heard > silentMilliseconds) connect();
  }, 1000);
  connect();
}
