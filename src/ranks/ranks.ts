// The ranks of a job, as one of them sees them: values exchanged between all, signs of life, and one verdict when something
// fails. Rank 0 is the middle of a star; whatever fails anywhere becomes one sentence with rank, host and reason, which
// every rank ends with. Gradients do not go this way (src/ops/collectives.ts).
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { Gpt2Error, NativeError } from '../errors.ts';
import type { Channel, Message } from './channel.ts';
import { meet } from './meet.ts';
import type { Place } from './place.ts';

/** A job of several ranks that has failed; every rank ends with the same. */
export class RankError extends Gpt2Error {
  override readonly name = 'RankError';
}

const beatMilliseconds = 1000;
/** Before training begins a rank may be busy for long: it checks shards and draws weights. */
const patienceBefore = 600_000;
/** A step that takes so many times as long as the longest before it, and as what a silent rank is given, comes no more. */
const hopeless = 10;
/** How long rank 0 listens for the reason behind what it hears first. */
const verdictMilliseconds = 1000;
/** How long a rank that fails waits for what rank 0 makes of it. */
const answerMilliseconds = 4000;

/** What rank 0 knows of another. */
interface Other {
  readonly channel: Channel;
  heard: number;
  step: number;
  /** Since when it has been in that step, as far as is known here. */
  since: number;
}

/** A rank that is gone takes collectives with it, and on GPUs memory that others read. */
const isLikelyEffect = (error: unknown): boolean =>
  error instanceof NativeError && (error.status === 'GPT2_RANK_ERROR' || error.status === 'GPT2_DEVICE_ERROR');

interface Blame {
  readonly rank: number;
  readonly reason: string;
  /** Whether it may be an effect of what happened elsewhere. */
  readonly isEffect: boolean;
}

export class Ranks {
  readonly place: Place;
  /** The machine of each rank. */
  hosts: readonly string[] = [];
  /** Rejects with the verdict as soon as there is one. */
  readonly failed: Promise<never>;
  readonly #others = new Map<number, Other>();
  readonly #inbox = new Map<number, unknown[]>();
  #wake: () => void = () => {};
  #reject!: (error: RankError) => void;
  #verdict: RankError | undefined;
  #hasEffect = false;
  #timer: NodeJS.Timeout | undefined;
  #check: () => void = () => {};
  #tick = performance.now();
  #patience = patienceBefore;
  #step = -1;
  #longestStep = 0;
  /** When the last step was done; undefined: none was, or something else has come since. */
  #stepDone: number | undefined;
  #left = false;

  /**
   * Meets the other ranks.
   * @param notice told of strangers
   * @param signal aborting it ends the waiting
   * @throws RankError if one does not come
   */
  static async join(place: Place, notice: (text: string) => void, signal?: AbortSignal): Promise<Ranks> {
    let channels: Map<number, Channel>;
    try {
      channels = await meet(place, notice, signal);
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
      throw new RankError(`rank ${place.rank} on ${hostname()}: ${error.message}`, { cause: error });
    }
    const ranks = new Ranks(place, channels);
    try {
      ranks.hosts = await ranks.allGather(hostname());
      return ranks;
    } catch (error) {
      ranks.close();
      throw error;
    }
  }

  /** Does `work` as one of the ranks: what fails in one fails in all. */
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
    this.failed = new Promise((_, reject) => {
      this.#reject = reject;
    });
    // Who waits for it comes later.
    this.failed.catch(() => {});
    for (const [rank, channel] of channels) {
      const now = performance.now();
      this.#others.set(rank, { channel, heard: now, step: -1, since: now });
      this.#inbox.set(rank, []);
    }
    // Whatever one that is gone already sets off here concerns all.
    for (const [rank, { channel }] of this.#others) {
      channel.listen(
        (message) => this.#receive(rank, message),
        (reason) => this.#lost(rank, reason),
      );
    }
    this.#timer = setInterval(() => this.#beat(), beatMilliseconds);
    this.#timer.unref();
  }

  get rank(): number {
    return this.place.rank;
  }

  get count(): number {
    return this.place.ranks;
  }

  /** Whether this rank writes what a run leaves. */
  get isRoot(): boolean {
    return this.place.rank === 0;
  }

  /** Every rank's value, by rank; all ranks exchange in the same order. @throws RankError if the job fails meanwhile */
  async allGather<T>(value: T): Promise<T[]> {
    if (this.isRoot) {
      const values = [value];
      for (const rank of [...this.#others.keys()].sort((a, b) => a - b)) values[rank] = (await this.#next(rank)) as T;
      for (const { channel } of this.#others.values()) channel.send({ type: 'values', value: values });
      return values;
    }
    this.#root.channel.send({ type: 'value', value });
    return (await this.#next(0)) as T[];
  }

  /** Rank 0's value. */
  async fromRoot<T>(value: T): Promise<T> {
    return (await this.allGather(value))[0]!;
  }

  /** The sum of every rank's value, added in the order of ranks. */
  async sum(value: number): Promise<number> {
    // As texts: JSON has no word for NaN.
    return (await this.allGather(String(value))).reduce((sum, each) => sum + Number(each), 0);
  }

  /** Returns when every rank is here. */
  async barrier(): Promise<void> {
    await this.allGather(null);
  }

  /** Tells that a step is begun. From the first on a rank that is silent, or waited for, for long is given up. */
  begin(step: number): void {
    this.#step = step;
    if (this.#patience === patienceBefore) for (const other of this.#others.values()) other.since = performance.now();
    this.#patience = this.place.silenceSeconds * 1000;
  }

  /** Tells how long a step took. From then on, until `rest` or `pause`, one that all ranks are stuck in ends the job too. */
  done(milliseconds: number): void {
    this.#longestStep = Math.max(this.#longestStep, milliseconds);
    this.#stepDone = performance.now();
  }

  /** What comes before the next step is done may take any time. */
  pause(): void {
    this.#stepDone = undefined;
  }

  /** @throws RankError if the job has failed */
  check(): void {
    if (this.#verdict) throw this.#verdict;
  }

  /** Looks every second whether `check` throws: then that is what the job ends with. */
  watch(check: () => void): void {
    this.#check = check;
  }

  /** Until the next step begins a rank may be busy for long. */
  rest(): void {
    this.#patience = patienceBefore;
    this.pause();
  }

  /** "rank 2 on gpu07" */
  name(rank: number): string {
    return `rank ${rank}${this.hosts[rank] === undefined ? '' : ` on ${this.hosts[rank]}`}`;
  }

  /** What every rank that finds it ends with. */
  disagreement(rank: number, what: string): RankError {
    return this.#end(`${this.name(rank)} disagrees: ${what}`);
  }

  /** Tells every rank of what went wrong in this one, and gives what all of them end with. */
  async fail(error: unknown): Promise<unknown> {
    // A defect keeps its own stack.
    if (this.#verdict) return error instanceof Gpt2Error ? this.#verdict : error;
    if (this.#left) return error;
    const isEffect = isLikelyEffect(error) || (error instanceof Gpt2Error && isLikelyEffect(error.cause));
    const reason = error instanceof Gpt2Error ? error.message : `a defect of gpt2.ts: ${error}`;
    const blame = { rank: this.rank, reason, isEffect };
    if (this.isRoot) this.#accuse(blame);
    else await this.#root.channel.sent({ type: 'failed', ...blame });
    const verdict = this.failed.catch((told: RankError) => told);
    const own = setTimeout(answerMilliseconds, undefined, { ref: false }).then(() => this.#decide(blame));
    const told = await Promise.race([verdict, own]);
    // A defect keeps its stack where it happened.
    return error instanceof Gpt2Error ? told : error;
  }

  /** Parts when all are done: what closes now is no failure. */
  async leave(): Promise<void> {
    if (this.#left) return;
    await this.barrier();
    this.#left = true;
  }

  close(): void {
    this.#left = true;
    clearInterval(this.#timer);
    for (const { channel } of this.#others.values()) channel.close();
  }

  get #root(): Other {
    return this.#others.get(0)!;
  }

  async #next(rank: number): Promise<unknown> {
    const queue = this.#inbox.get(rank)!;
    while (queue.length === 0) {
      const arrived = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.race([arrived, this.failed]);
    }
    this.check();
    return queue.shift();
  }

  #receive(rank: number, { type, ...content }: Message): void {
    const other = this.#others.get(rank)!;
    other.heard = performance.now();
    if (type === 'value' || type === 'values') {
      this.#inbox.get(rank)!.push(content.value);
      this.#wake();
    }
    if (type === 'alive' && other.step !== content.step) {
      other.step = content.step as number;
      other.since = performance.now();
    }
    if (type === 'failed') this.#accuse({ rank, reason: String(content.reason), isEffect: content.isEffect === true });
    if (type === 'verdict') this.#end(String(content.text));
  }

  #lost(rank: number, reason: string): void {
    if (this.#left || this.#verdict) return;
    this.#accuse({ rank, reason: `is gone: ${reason}`, isEffect: false });
  }

  /** At rank 0: the first cause that is known ends the job; an effect only if nothing else is heard for a moment. */
  #accuse(blame: Blame): void {
    if (!this.isRoot) {
      this.#decide(blame);
      return;
    }
    if (!blame.isEffect) this.#decide(blame);
    else if (!this.#hasEffect) globalThis.setTimeout(() => this.#decide(blame), verdictMilliseconds);
    this.#hasEffect = true;
  }

  #decide({ rank, reason, isEffect }: Blame): RankError {
    if (this.#verdict) return this.#verdict;
    // "gpt2_all_reduce: rank 2 has not answered": of the rank it names, whose host is known here.
    const named = isEffect ? /rank (\d+) (.*)$/.exec(reason) : null;
    const text = named
      ? `${this.name(Number(named[1]))} ${named[2]}`
      : `${this.name(rank)}${/^(is|gave|has) /.test(reason) ? ' ' : ': '}${reason}`;
    for (const { channel } of this.#others.values()) channel.send({ type: 'verdict', text });
    return this.#end(text);
  }

  #end(text: string): RankError {
    if (this.#verdict) return this.#verdict;
    this.#verdict = new RankError(text);
    this.#reject(this.#verdict);
    return this.#verdict;
  }

  /** Every second: a sign of life to the others, and a look at theirs. */
  #beat(): void {
    const now = performance.now();
    const late = now - this.#tick - beatMilliseconds;
    this.#tick = now;
    for (const { channel } of this.#others.values()) channel.send({ type: 'alive', step: this.#step });
    if (this.#left || this.#verdict) return;
    try {
      this.#check();
    } catch (error) {
      this.fail(error);
      return;
    }
    // Whoever was busy itself has not read what the others sent meanwhile.
    if (late > beatMilliseconds) for (const other of this.#others.values()) other.heard = now;
    const furthest = Math.max(this.#step, ...[...this.#others.values()].map(({ step }) => step));
    for (const [rank, other] of this.#others) {
      const seconds = Math.round(this.#patience / 1000);
      const reason =
        now - other.heard > this.#patience
          ? `gave no sign of life for ${seconds} s, last in ${other.step < 0 ? 'its preparations' : `step ${other.step}`}`
          : other.step < furthest && now - other.since > this.#patience && now - other.heard < 3 * beatMilliseconds
            ? `is in step ${other.step}, and was waited for in step ${furthest} for ${seconds} s`
            : undefined;
      if (reason !== undefined) this.#accuse({ rank, reason, isEffect: false });
    }
    const since = now - (this.#stepDone ?? now);
    if (since > hopeless * Math.max(this.#longestStep, this.place.silenceSeconds * 1000)) {
      const seconds = Math.round(since / 1000);
      const reason = `has waited ${seconds} s for step ${this.#step} to end, and so has every other: what joins them hangs`;
      this.#accuse({ rank: this.rank, reason, isEffect: false });
    }
  }
}
