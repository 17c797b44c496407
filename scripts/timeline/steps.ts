// Reads a recorded timeline: parses the lines of record.cpp, finds the steps, and measures how long the kinds of kernels ran and
// overlapped. trace.ts writes it for a viewer.

/** A half-open interval of time. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A kernel, copy or fill on a GPU; times in milliseconds since the first one of all ranks. */
export interface Kernel extends Span {
  readonly stream: number;
  /** Its node in a graph; 0: none. */
  readonly node: string;
  /** Blocks of its grid; 0: a copy or a fill. */
  readonly blocks: number;
  readonly name: string;
}

/** Parses each rank's file into its records and the recorder's notes. A last line without a line break is skipped: its process ended while writing it. */
export function parseTimelines(texts: readonly string[]): { kernels: Kernel[]; notes: string[] }[] {
  const files = texts.map((text) => text.split('\n').slice(0, -1));
  const records = files.map((lines) =>
    lines
      .filter((line) => !line.startsWith('#'))
      .map((line) => {
        const [start, end, stream, node, blocks, name] = line.split('\t');
        if (name === undefined) throw new Error(`not a line of a timeline: ${line}`);
        return { start: BigInt(start!), end: BigInt(end!), stream: Number(stream), node: node!, blocks, name };
      }),
  );
  // Nanoseconds since 1970 exceed the integers that a number holds.
  const first = records.flat().reduce((least, { start }) => (start < least ? start : least), 1n << 64n);
  return records.map((own, rank) => ({
    kernels: own.map(({ start, end, blocks, ...rest }) => ({
      ...{ start: Number(start - first) / 1e6, end: Number(end - first) / 1e6 },
      ...{ blocks: Number(blocks), ...rest },
    })),
    notes: files[rank]!.flatMap((line) => (line.startsWith('#') ? [line.slice(1).trim()] : [])),
  }));
}

export const collectives = ['peer copies', 'reduce-scatter', 'all-gather', 'all-reduce', 'other NCCL'] as const;
/** In the order of the table. */
export const kinds = ['model', 'AdamW', ...collectives, 'copies'] as const;
export type Kind = (typeof kinds)[number];

export function kindOf({ name, blocks }: Pick<Kernel, 'name' | 'blocks'>): Kind {
  if (/\bnccl/.test(name)) {
    if (name.includes('ReduceScatter')) return 'reduce-scatter';
    if (name.includes('AllGather')) return 'all-gather';
    return name.includes('AllReduce') ? 'all-reduce' : 'other NCCL';
  }
  if (/::adamw_kernel\b/.test(name)) return 'AdamW';
  if (name === 'peer copy') return 'peer copies';
  return blocks === 0 ? 'copies' : 'model';
}

const lengthOf = (spans: readonly Span[]): number => spans.reduce((sum, { start, end }) => sum + end - start, 0);

/** The union of spans, in order and disjoint. */
export function union(spans: readonly Span[]): Span[] {
  const joined: { start: number; end: number }[] = [];
  for (const { start, end } of spans.toSorted((a, b) => a.start - b.start)) {
    const last = joined.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ start, end });
  }
  return joined;
}

/** The length of the intersection of two unions. */
export function common(a: readonly Span[], b: readonly Span[]): number {
  let sum = 0;
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    sum += Math.max(0, Math.min(a[i]!.end, b[j]!.end) - Math.max(a[i]!.start, b[j]!.start));
    if (a[i]!.end < b[j]!.end) i++;
    else j++;
  }
  return sum;
}

/** Steps in order: each from the end of a gradient norm, which there is once a step, to the end of the next. */
export function stepsOf(kernels: readonly Kernel[]): Span[] {
  const ends = kernels.flatMap(({ name, end }) => (/::norm_kernel\(/.test(name) ? [end] : [])).sort((a, b) => a - b);
  return ends.slice(1).map((end, index) => ({ start: ends[index]!, end }));
}

/** The index of a typical step: the one of median length among the last, which do not warm up any more. */
export function typicalStep(steps: readonly Span[], last = 10): number {
  const indices = [...steps.keys()].slice(-last);
  if (indices.length === 0) throw new Error('no complete step was recorded: train more --steps');
  return indices.sort((a, b) => lengthOf([steps[a]!]) - lengthOf([steps[b]!]))[(indices.length - 1) >> 1]!;
}

/** The kernels of a step, cut to it, in the order of their starts. */
export const within = (kernels: readonly Kernel[], step: Span): Kernel[] =>
  kernels
    .filter(({ start, end }) => end > step.start && start < step.end)
    .map((kernel) => ({ ...kernel, start: Math.max(kernel.start, step.start), end: Math.min(kernel.end, step.end) }))
    .sort((a, b) => a.start - b.start);

/** Times of some kinds of kernels, in milliseconds. */
interface Times {
  readonly count: number;
  /** At least one of them runs. */
  readonly ms: number;
  /** The part in which a kernel of the model or AdamW, of another kind, runs too. */
  readonly besideOurs: number;
  /** The part in which no other kind runs. */
  readonly alone: number;
}

/** The times of each kind of kernel in a step, of all collectives together, and of nothing, from the kernels within it. */
export function summarize(kernels: readonly Kernel[], step: Span) {
  const timesOf = (belongs: (kind: Kind) => boolean): Times => {
    const own = kernels.filter((kernel) => belongs(kindOf(kernel)));
    const spans = union(own);
    const ms = lengthOf(spans);
    const rest = kernels.filter((kernel) => !belongs(kindOf(kernel)));
    const ours = union(rest.filter((kernel) => ['model', 'AdamW'].includes(kindOf(kernel))));
    return { count: own.length, ms, besideOurs: common(spans, ours), alone: ms - common(spans, union(rest)) };
  };
  const ms = lengthOf([step]);
  return {
    ms,
    kinds: kinds.map((kind) => ({ kind, ...timesOf((other) => other === kind) })).filter(({ count }) => count > 0),
    collectives: timesOf((kind) => collectives.includes(kind as (typeof collectives)[number])),
    idle: ms - lengthOf(union(kernels)),
  };
}

/** A kernel's times in a step, in milliseconds. */
interface KernelTimes {
  /** Without its parameters; with "2 of 3" if each layer calls it more than once. */
  readonly name: string;
  count: number;
  /** From the end of the kernel before to its own end: one that is launched early waits for the one before. */
  ms: number;
  /** Before it, when nothing ran. */
  gap: number;
}

/** "sm90::plain_kernel<true, 208>" of "void gpt2::sm90::plain_kernel<true, 208>(gpt2::sm90::ProductMaps)". */
const shortName = (name: string): string =>
  name
    .replace(/^void /, '')
    .replace(/\((?:[^()]|\([^()]*\))*\)$/, '')
    .replaceAll('gpt2::', '');

/** The times of each kernel of a step of one GPU, the longest first; they and the gaps sum to the step. */
export function timesByKernel(kernels: readonly Kernel[], step: Span, layers: number): KernelTimes[] {
  const calls = new Map<string, number>();
  for (const { name } of kernels) calls.set(name, (calls.get(name) ?? 0) + 1);
  const seen = new Map<string, number>();
  const rows = new Map<string, KernelTimes>();
  const busy = union(kernels);
  let before = step.start;
  for (const kernel of kernels.toSorted((a, b) => a.end - b.end)) {
    const index = seen.get(kernel.name) ?? 0;
    seen.set(kernel.name, index + 1);
    const ofLayer = calls.get(kernel.name)! / layers;
    const name =
      shortName(kernel.name) + (ofLayer > 1 && ofLayer % 1 === 0 ? `, ${(index % ofLayer) + 1} of ${ofLayer}` : '');
    const row = rows.get(name) ?? { name, count: 0, ms: 0, gap: 0 };
    const ran = common(busy, [{ start: before, end: kernel.end }]);
    row.count++;
    row.ms += ran;
    row.gap += kernel.end - before - ran;
    rows.set(name, row);
    before = kernel.end;
  }
  return [...rows.values()].sort((a, b) => b.ms - a.ms);
}
