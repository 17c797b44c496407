// Connects the ranks of a job through rank 0: gathers values of all ranks, and turns the first failure into one error, which names
// the rank, host and reason; every rank ends with this error. Gradients use other connections (src/ops/collectives.ts).
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { expected, Gpt2Error, NativeError } from '../base/errors.ts';
import type { Channel, Message } from './channel.ts';
import { beatMilliseconds, type Liveness, livenessOf } from './liveness.ts';
import { meet } from './meet.ts';
import type { Place } from './place.ts';

/** The failure of a job of several ranks; every rank ends with the same error. */
export class RankError extends Gpt2Error {
  override readonly name = 'RankError';
  /** Whether rank 0 prints this error on the same machine, so that a run that cannot begin prints one line, not one per rank. */
  isPrinted = false;
}

/** Time that rank 0 waits for the cause of a failure, once a rank has reported an error that another rank may have caused. */
const causeMilliseconds = 1000;
/** Time that a failing rank waits for the verdict of rank 0. */
const verdictMilliseconds = 4000;

interface Blame {
  readonly rank: number;
  /** The text that follows the name of the rank: " is gone: ...", or ": " and the message of the error. */
  readonly deed: string;
  /** Whether the failure of another rank may be the cause of this one. */
  readonly isEffect: boolean;
}

/** Blames a rank for an error. When a rank ends, other ranks' collectives and reads of its GPU memory fail: `isEffect` is then true. */
function blameFor(error: unknown, rank: number): Blame {
  if (!(error instanceof Gpt2Error)) return { rank, deed: `: a defect of gpt2.ts: ${error}`, isEffect: false };
  const native = [error, error.cause].find((each) => each instanceof NativeError);
  const isEffect = native?.status === 'GPT2_RANK_ERROR' || native?.status === 'GPT2_DEVICE_ERROR';
  if (native?.failedRank === undefined) return { rank, deed: `: ${error.message}`, isEffect };
  // "rank 2 has not answered" becomes " has not answered", because the verdict names the rank with its host.
  return { rank: native.failedRank, deed: native.detail.slice(`rank ${native.failedRank}`.length), isEffect };
}

/** Whether this process writes the run folder: it is rank 0, or it trains alone. */
export const isRoot = (ranks: Ranks | undefined): boolean => ranks?.isRoot ?? true;

export class Ranks {
  readonly place: Place;
  readonly rank: number;
  readonly count: number;
  /** Whether this rank writes the run folder. */
  readonly isRoot: boolean;
  readonly liveness: Liveness;
  /** The machine name of each rank. */
  hosts: readonly string[] = [];
  /** Rejects with the verdict, the error with which every rank ends, as soon as it is known here. */
  readonly failed: Promise<never>;
  readonly #others: ReadonlyMap<number, Channel>;
  readonly #inbox = new Map<number, unknown[]>();
  #wake: () => void = () => {};
  #reject!: (error: RankError) => void;
  /** The error with which every rank ends, once it is known here. */
  #verdict: RankError | undefined;
  /** On rank 0: whether a failure was reported, so that rank 0 waits for the cause of an effect only once. */
  #hasEffect = false;
  readonly #timer: NodeJS.Timeout;
  /** The function that `watch` has set, called with every heartbeat. */
  #check: () => void = () => {};
  /** Whether this rank is done: a connection that closes from then on is no failure. */
  #left = false;

  /**
   * Connects to the other ranks.
   * @param notice called for each refused connection
   * @param signal aborting it ends the wait
   * @throws RankError if a rank does not connect in time or fails meanwhile, rank 0 refuses this rank, or `signal` is aborted
   */
  static async join(place: Place, notice: (text: string) => void, signal?: AbortSignal): Promise<Ranks> {
    const channels = await meet(place, notice, signal).catch((error: unknown) => {
      throw new RankError(`rank ${place.rank} on ${hostname()}: ${expected(error).message}`, { cause: error });
    });
    const ranks = new Ranks(place, channels);
    try {
      ranks.hosts = await ranks.allGather(hostname());
      return ranks;
    } catch (error) {
      ranks.close();
      throw error;
    }
  }

  /** Joins the job, runs `work`, and leaves; every rank must call this. An error on one rank ends all ranks. */
  static async together<R>(
    place: Place,
    notice: (text: string) => void,
    work: (ranks: Ranks) => Promise<R>,
  ): Promise<R> {
    const ranks = await Ranks.join(place, notice);
    try {
      const result = await Promise.race([work(ranks), ranks.failed]);
      await ranks.leave();
      return result;
    } catch (error) {
      throw await ranks.fail(error);
    } finally {
      ranks.close();
    }
  }

  private constructor(place: Place, channels: ReadonlyMap<number, Channel>) {
    this.place = place;
    this.rank = place.rank;
    this.count = place.ranks;
    this.isRoot = place.rank === 0;
    this.failed = new Promise((_, reject) => {
      this.#reject = reject;
    });
    // `failed` may reject before anything awaits it: this handler prevents an unhandled rejection.
    this.failed.catch(() => {});
    this.#others = channels;
    this.liveness = livenessOf(channels.keys(), place.silenceSeconds);
    for (const rank of channels.keys()) this.#inbox.set(rank, []);
    // After the assignments above: if a rank has already ended, `listen` fails the job at once, and sends the failure to all ranks.
    for (const [rank, channel] of channels) {
      channel.listen(
        (message) => this.#receive(rank, message),
        (reason) => this.#lost(rank, reason),
      );
    }
    // setImmediate, to read arrived messages first: writing to a rank that has ended would lose that rank's last message, the reason.
    this.#timer = setInterval(() => setImmediate(() => this.#left || this.#beat()), beatMilliseconds).unref();
  }

  /** The values of all ranks, by rank; all ranks must gather in the same order. @throws RankError if the job fails meanwhile */
  async allGather<T>(value: T): Promise<T[]> {
    if (this.isRoot) {
      const values = [value];
      for (const rank of [...this.#others.keys()].sort((a, b) => a - b)) values[rank] = (await this.#next(rank)) as T;
      this.#sendAll({ type: 'values', value: values });
      return values;
    }
    this.#root.send({ type: 'value', value });
    return (await this.#next(0)) as T[];
  }

  /** Sends the value of rank 0 to all ranks, and returns it on each. */
  async fromRoot<T>(value: T): Promise<T> {
    return (await this.allGather(value))[0]!;
  }

  async barrier(): Promise<void> {
    await this.allGather(null);
  }

  /** Runs `work` on rank 0, then on all other ranks. In a download, rank 0 shows progress; the other ranks find the finished file. */
  async afterRoot<T>(work: () => Promise<T>): Promise<T> {
    if (!this.isRoot) await this.barrier();
    const result = await work();
    if (this.isRoot) await this.barrier();
    return result;
  }

  /** @throws RankError if the job has failed */
  check(): void {
    if (this.#verdict) throw this.#verdict;
  }

  /** Calls `check` with every heartbeat, once a second; an error that it throws ends the job. */
  watch(check: () => void): void {
    this.#check = check;
  }

  /** The name of a rank in messages: "rank 2 on gpu07". */
  name(rank: number): string {
    return `rank ${rank}${this.hosts[rank] === undefined ? '' : ` on ${this.hosts[rank]}`}`;
  }

  /** Ends the job because a value, such as an option, differs between a rank and rank 0. Every rank finds the same first difference. */
  disagreement(rank: number, difference: string): RankError {
    return this.#end(`${this.name(rank)} disagrees: ${difference}`);
  }

  /** Reports an error of this rank to all, and returns the error with which every rank ends. */
  async fail(error: unknown): Promise<unknown> {
    // An error that is no Gpt2Error is a bug: it is returned unchanged, because its stack is needed.
    if (this.#verdict) return error instanceof Gpt2Error ? this.#verdict : error;
    if (this.#left) return error;
    const blame = blameFor(error, this.rank);
    if (this.isRoot) this.#accuse(blame);
    else await new Promise<void>((resolve) => this.#root.send({ type: 'failed', ...blame }, resolve));
    const verdict = this.failed.catch((decided: RankError) => decided);
    const alone = setTimeout(verdictMilliseconds, undefined, { ref: false }).then(() => this.#decide(blame));
    const decided = await Promise.race([verdict, alone]);
    return error instanceof Gpt2Error ? decided : error;
  }

  /** Waits until all ranks are done; a connection that closes later is no failure. */
  async leave(): Promise<void> {
    if (this.#left) return;
    await this.barrier();
    this.#left = true;
  }

  close(): void {
    this.#left = true;
    clearInterval(this.#timer);
    for (const channel of this.#others.values()) channel.close();
  }

  get #root(): Channel {
    return this.#others.get(0)!;
  }

  #sendAll(message: Message): void {
    for (const channel of this.#others.values()) channel.send(message);
  }

  async #next(rank: number): Promise<unknown> {
    const queue = this.#inbox.get(rank)!;
    // Promise.race with `failed` is avoided, because `failed` would keep a callback of every wait until the run ends.
    while (queue.length === 0 && !this.#verdict) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.check();
    return queue.shift();
  }

  #receive(rank: number, { type, ...content }: Message): void {
    this.liveness.hear(rank, type === 'alive' ? (content.step as number) : undefined);
    if (type === 'value' || type === 'values') {
      this.#inbox.get(rank)!.push(content.value);
      this.#wake();
    }
    if (type === 'failed') {
      this.#accuse({ rank: content.rank as number, deed: String(content.deed), isEffect: content.isEffect === true });
    }
    if (type === 'verdict') {
      const isHere = this.hosts[0] !== undefined && this.hosts[0] === this.hosts[this.rank];
      this.#end(String(content.text)).isPrinted = isHere && this.liveness.step < 0;
    }
  }

  #lost(rank: number, reason: string): void {
    if (this.#left || this.#verdict) return;
    this.#accuse({ rank, deed: ` is gone: ${reason}`, isEffect: false });
  }

  /** Ends the job with the first known cause. If `blame` is only an effect, rank 0 waits a second for a rank to report the cause. */
  #accuse(blame: Blame): void {
    if (!this.isRoot || !blame.isEffect) this.#decide(blame);
    else if (!this.#hasEffect) globalThis.setTimeout(() => this.#decide(blame), causeMilliseconds);
    this.#hasEffect = true;
  }

  #decide({ rank, deed }: Blame): RankError {
    if (this.#verdict) return this.#verdict;
    const text = `${this.name(rank)}${deed}`;
    this.#sendAll({ type: 'verdict', text });
    return this.#end(text);
  }

  #end(text: string): RankError {
    if (this.#verdict) return this.#verdict;
    this.#verdict = new RankError(text);
    this.#reject(this.#verdict);
    this.#wake();
    return this.#verdict;
  }

  /** Sends a heartbeat, and looks for failures. */
  #beat(): void {
    this.#sendAll({ type: 'alive', step: this.liveness.step });
    const failures = this.liveness.failures(this.rank);
    if (this.#left || this.#verdict) return;
    try {
      this.#check();
    } catch (error) {
      this.fail(error);
      return;
    }
    for (const { rank, reason } of failures) this.#accuse({ rank, deed: ` ${reason}`, isEffect: false });
  }
}
