// Sends messages between two processes, one JSON value per line over TCP. First, each process proves that it belongs to the job: it
// returns an HMAC of the other's random challenge. The key of the HMAC is the job's token, which is never sent. Later messages are
// neither encrypted nor authenticated.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';

export type Message = Readonly<Record<string, unknown>>;

/** The most characters of a message: until the peer has proved that it belongs to the job, and afterwards. */
const longestUntrusted = 1000;
const longest = 1 << 28;
/** Time that a closed channel waits for its peer to close too. */
const lastMilliseconds = 1000;

export class Channel {
  readonly peer: string;
  readonly #socket: Socket;
  readonly #waiting: Message[] = [];
  #receive: ((message: Message) => void) | undefined;
  #closed: ((reason: string) => void) | undefined;
  #reason: string | undefined;
  /** Text received after the last line break. */
  #rest = '';
  /** Set once the peer has proved that it belongs to the job. */
  isTrusted = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.peer = socket.remoteAddress ?? 'an unknown address';
    socket.setNoDelay(true);
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => this.#take(text));
    // A process that is killed with unread data resets its connection; a write to a reset connection fails with EPIPE.
    socket.on('error', ({ code, message }: NodeJS.ErrnoException) =>
      this.#end(code === 'ECONNRESET' || code === 'EPIPE' ? 'its connection closed' : message),
    );
    socket.on('close', () => this.#end('its connection closed'));
  }

  /** @param taken called when the operating system has taken the message, or the connection has ended */
  send(message: Message, taken = () => {}): void {
    if (this.#socket.destroyed) taken();
    else this.#socket.write(`${JSON.stringify(message)}\n`, () => taken());
  }

  /** Calls `receive` with every message, and `closed` with the reason when the connection ends. */
  listen(receive: (message: Message) => void, closed: (reason: string) => void): void {
    this.#receive = receive;
    this.#closed = closed;
    for (const message of this.#waiting.splice(0)) receive(message);
    if (this.#reason !== undefined) closed(this.#reason);
  }

  /** Waits for the next message. @throws Error if none arrives in time */
  next(milliseconds: number): Promise<Message> {
    return new Promise((resolve, reject) => {
      const done = (act: () => void) => {
        clearTimeout(timer);
        this.#receive = undefined;
        this.#closed = undefined;
        act();
      };
      const timer = setTimeout(() => done(() => reject(new Error('it did not answer in time'))), milliseconds);
      const first = this.#waiting.shift();
      if (first) done(() => resolve(first));
      else if (this.#reason !== undefined) done(() => reject(new Error(this.#reason)));
      else {
        this.#receive = (message) => done(() => resolve(message));
        this.#closed = (reason) => done(() => reject(new Error(reason)));
      }
    });
  }

  /** Ends this side, but reads until the peer closes: unread data would reset the connection, and the peer would lose messages. */
  close(): void {
    if (this.#socket.destroyed) return;
    this.#socket.end();
    const late = setTimeout(() => this.#socket.destroy(), lastMilliseconds);
    this.#socket.once('close', () => clearTimeout(late));
  }

  #take(text: string): void {
    const lines = text.split('\n');
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop()!;
    for (const line of lines) {
      try {
        const message: unknown = JSON.parse(line);
        if (typeof message !== 'object' || message === null) throw new SyntaxError('not an object');
        this.#give(message as Message);
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        this.#socket.destroy();
        return;
      }
    }
    if (this.#rest.length > (this.isTrusted ? longest : longestUntrusted)) this.#socket.destroy();
  }

  #give(message: Message): void {
    if (this.#receive) this.#receive(message);
    else this.#waiting.push(message);
  }

  #end(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#closed?.(reason);
  }
}

const proofOf = (token: string, role: 'join' | 'welcome', ...facts: (string | number)[]): string =>
  createHmac('sha256', token)
    .update([role, ...facts].join(' '))
    .digest('hex');

const isProof = (wanted: string, proof: unknown): boolean => {
  const [a, b] = [Buffer.from(wanted), Buffer.from(String(proof))];
  return a.length === b.length && timingSafeEqual(a, b);
};

const answerMilliseconds = 5000;

/**
 * Runs on rank 0: authenticates the process that has connected, and returns its rank.
 * @param refuse returns the reason why a rank may not join, or undefined
 * @throws Error with the reason for a refusal
 */
export async function welcome(
  channel: Channel,
  { token, ranks, refuse }: { token: string; ranks: number; refuse: (rank: number) => string | undefined },
): Promise<number> {
  const challenge = randomBytes(16).toString('hex');
  channel.send({ program: 'gpt2.ts', challenge });
  const { rank, ranks: count, challenge: theirs, proof } = await channel.next(answerMilliseconds);
  const no = (reason: string): never => {
    channel.send({ refused: reason });
    throw new Error(reason);
  };
  if (!Number.isSafeInteger(rank) || !Number.isSafeInteger(count)) return no('it is not a rank');
  if (!isProof(proofOf(token, 'join', challenge, rank as number, count as number), proof)) {
    return no('its job token differs');
  }
  if (count !== ranks) return no(`it is one of ${count} ranks, rank 0 one of ${ranks}`);
  const reason = refuse(rank as number);
  if (reason !== undefined) return no(reason);
  channel.send({ welcome: proofOf(token, 'welcome', String(theirs)) });
  channel.isTrusted = true;
  return rank as number;
}

export class RefusedError extends Error {}

/** Runs on every other rank: joins rank 0's job. @throws RefusedError; Error if the peer does not answer or is not this job's rank 0 */
export async function introduce(
  channel: Channel,
  { token, rank, ranks }: { token: string; rank: number; ranks: number },
): Promise<void> {
  const { program, challenge } = await channel.next(answerMilliseconds);
  if (program !== 'gpt2.ts') throw new Error('another program answers');
  const mine = randomBytes(16).toString('hex');
  channel.send({ rank, ranks, challenge: mine, proof: proofOf(token, 'join', String(challenge), rank, ranks) });
  const { welcome, refused } = await channel.next(answerMilliseconds);
  if (refused !== undefined) throw new RefusedError(String(refused));
  if (!isProof(proofOf(token, 'welcome', mine), welcome))
    throw new Error('the program that answers does not know the job token');
  channel.isTrusted = true;
}
