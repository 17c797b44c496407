// Messages between two processes: one JSON value a line over TCP, and how the two make sure that they are of the same job. Each
// proves with an HMAC over the other's random challenge that it knows the token, which itself never travels; what follows is
// neither secret nor protected against whoever can change packets.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Socket } from 'node:net';

export type Message = Readonly<Record<string, unknown>>;

/** What a stranger may send before it has proved anything, in characters; and a rank. */
const longestOfStrangers = 1000;
const longest = 1 << 28;

export class Channel {
  readonly peer: string;
  readonly #socket: Socket;
  readonly #waiting: Message[] = [];
  #receive: ((message: Message) => void) | undefined;
  #closed: ((reason: string) => void) | undefined;
  #reason: string | undefined;
  #parts: string[] = [];
  #length = 0;
  /** Set once the other end has proved that it is of the job. */
  isTrusted = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.peer = socket.remoteAddress ?? 'nobody';
    socket.setNoDelay(true);
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => this.#take(text));
    socket.on('error', ({ message }) => this.#end(message));
    socket.on('close', () => this.#end('its connection closed'));
  }

  send(message: Message): void {
    if (!this.#socket.destroyed) this.#socket.write(`${JSON.stringify(message)}\n`);
  }

  /** Sends and returns when the system has taken it, or never will. */
  async sent(message: Message): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#socket.destroyed) resolve();
      else this.#socket.write(`${JSON.stringify(message)}\n`, () => resolve());
    });
  }

  /** From now on `receive` is given every message, and `closed` why there are no more. */
  listen(receive: (message: Message) => void, closed: (reason: string) => void): void {
    this.#receive = receive;
    this.#closed = closed;
    for (const message of this.#waiting.splice(0)) receive(message);
    if (this.#reason !== undefined) closed(this.#reason);
  }

  /** The next message. @throws Error if there is none within the time */
  next(milliseconds: number): Promise<Message> {
    return new Promise((resolve, reject) => {
      const done = (act: () => void) => {
        clearTimeout(timer);
        this.#receive = undefined;
        this.#closed = undefined;
        act();
      };
      const timer = setTimeout(() => done(() => reject(new Error('it does not answer'))), milliseconds);
      const first = this.#waiting.shift();
      if (first) done(() => resolve(first));
      else if (this.#reason !== undefined) done(() => reject(new Error(this.#reason)));
      else {
        this.#receive = (message) => done(() => resolve(message));
        this.#closed = (reason) => done(() => reject(new Error(reason)));
      }
    });
  }

  close(): void {
    this.#socket.end();
    this.#socket.destroySoon();
  }

  #take(text: string): void {
    const lines = text.split('\n');
    const rest = lines.pop()!;
    for (const line of lines) {
      const whole = this.#parts.join('') + line;
      this.#parts = [];
      this.#length = 0;
      try {
        const message: unknown = JSON.parse(whole);
        if (typeof message !== 'object' || message === null) throw new SyntaxError('no object');
        this.#give(message as Message);
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        this.#socket.destroy();
        return;
      }
    }
    this.#parts.push(rest);
    this.#length += rest.length;
    if (this.#length > (this.isTrusted ? longest : longestOfStrangers)) this.#socket.destroy();
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

const isProof = (wanted: string, given: unknown): boolean => {
  const [a, b] = [Buffer.from(wanted), Buffer.from(String(given))];
  return a.length === b.length && timingSafeEqual(a, b);
};

const answerMilliseconds = 5000;

/** Rank 0's side: who has come. `refuse` says why it may not, or undefined. @throws Error saying what the stranger did */
export async function welcome(
  channel: Channel,
  { token, ranks, refuse }: { token: string; ranks: number; refuse: (rank: number) => string | undefined },
): Promise<number> {
  const challenge = randomBytes(16).toString('hex');
  channel.send({ program: 'gpt2.ts', challenge });
  const { rank, ranks: told, challenge: theirs, proof } = await channel.next(answerMilliseconds);
  const no = (reason: string): never => {
    channel.send({ refused: reason });
    throw new Error(reason);
  };
  if (!Number.isSafeInteger(rank) || !Number.isSafeInteger(told)) return no('it is no rank');
  if (!isProof(proofOf(token, 'join', challenge, rank as number, told as number), proof)) {
    return no('its job token is another');
  }
  if (told !== ranks) return no(`it is one of ${told} ranks, rank 0 of ${ranks}`);
  const reason = refuse(rank as number);
  if (reason !== undefined) return no(reason);
  channel.send({ welcome: proofOf(token, 'welcome', String(theirs)) });
  channel.isTrusted = true;
  return rank as number;
}

/** What rank 0 answers a rank that it does not take. */
export class RefusedError extends Error {}

/** Any other rank's side. @throws RefusedError; any other Error if nobody, or somebody else, answers */
export async function introduce(
  channel: Channel,
  { token, rank, ranks }: { token: string; rank: number; ranks: number },
): Promise<void> {
  const { program, challenge } = await channel.next(answerMilliseconds);
  if (program !== 'gpt2.ts') throw new Error('another program answers');
  const own = randomBytes(16).toString('hex');
  channel.send({ rank, ranks, challenge: own, proof: proofOf(token, 'join', String(challenge), rank, ranks) });
  const { welcome, refused } = await channel.next(answerMilliseconds);
  if (refused !== undefined) throw new RefusedError(String(refused));
  if (!isProof(proofOf(token, 'welcome', own), welcome)) throw new Error('what answers does not know the job token');
  channel.isTrusted = true;
}
