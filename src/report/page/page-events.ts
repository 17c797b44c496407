// Receives the server's events (../live/event-stream.ts), and reconnects after a failure.

/** State of the connection. `closed`: the server has announced its end; `lost`: the server does not answer. */
export type Connection = 'open' | 'closed' | 'lost';

/** Silence after which the page reconnects. The server sends an event at least every 5 s, so the connection must be broken. */
const silentMilliseconds = 20_000;
const againMilliseconds = 3000;

/**
 * Connects to the event stream, forever.
 * @param take by the name of an event, the handler of its data @param news called after every event and failure
 * @param begin called before the first event of a new stream; not if the browser itself reconnects, because the stream then continues
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
        // Call `begin` at the first event, not when connecting: the page keeps its contents while no server answers.
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
      // The server refused the stream (too many viewers, or another program listens at the port): the browser itself does not retry.
      if (stream.readyState === EventSource.CLOSED) setTimeout(connect, againMilliseconds);
    });
  };
  setInterval(() => {
    if (performance.now() - heard > silentMilliseconds) connect();
  }, 1000);
  connect();
}
