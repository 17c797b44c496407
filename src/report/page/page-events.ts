// Listens to the server's events (../../live/event-stream.ts), and reconnects.

/** `closed`: the server has ended; `lost`: nothing is heard from it. */
export type Connection = 'open' | 'closed' | 'lost';

/** The server sends something every five seconds; after this long the connection is broken, even if the browser keeps it. */
const silentMilliseconds = 20_000;
const againMilliseconds = 3000;

/**
 * @param take what to do with the data of each event, by its name
 * @param begin called before the first event of a stream from the beginning; one that the browser reconnects continues
 * @param news called after every event and failure
 */
export function listen(
  take: Readonly<Record<string, (data: string) => void>>,
  { begin, news }: { readonly begin: () => void; readonly news: (connection: Connection) => void },
): void {
  let connection: Connection = 'lost';
  let heard = performance.now();
  let source: EventSource | undefined;
  const connect = () => {
    heard = performance.now();
    let hasBegun = false;
    source?.close();
    const own = new EventSource('/events');
    source = own;
    const all: typeof take = { idle: () => {}, closed: () => {}, ...take };
    for (const [name, use] of Object.entries(all)) {
      own.addEventListener(name, ({ data }: MessageEvent<string>) => {
        heard = performance.now();
        // Not before: without a server the page keeps what it shows.
        if (!hasBegun) begin();
        hasBegun = true;
        connection = name === 'closed' ? 'closed' : 'open';
        use(data);
        news(connection);
      });
    }
    own.addEventListener('error', () => {
      if (connection === 'open') connection = 'lost';
      news(connection);
      // The server refused (too many viewers, another server), and the browser does not try again.
      if (own.readyState === EventSource.CLOSED) setTimeout(connect, againMilliseconds);
    });
  };
  setInterval(() => {
    if (performance.now() - heard > silentMilliseconds) connect();
  }, 1000);
  connect();
}
