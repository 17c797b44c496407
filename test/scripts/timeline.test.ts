// scripts/timeline.ts, on timelines made up here: which step it takes, which kernels run concurrently, and that its trace is complete.
import { describe, expect, it } from 'vitest';
import {
  common,
  kindOf,
  parseTimelines,
  stepsOf,
  summarize,
  timesByKernel,
  typicalStep,
  union,
  within,
} from '../../scripts/timeline/steps.ts';
import { chromeTrace } from '../../scripts/timeline/trace.ts';

const norm = 'gpt2::global_norm::norm_kernel(float*, double const*, int, float)';
const product = 'void gpt2::sm90::plain_kernel<true, false, (gpt2::Epilogue)0, 208>(gpt2::sm90::ProductMaps)';
const adamw = 'void gpt2::adamw::adamw_kernel<float, float>(float*, float*, long, gpt2::adamw::Scalars)';
const scatter = 'ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)';
const gather = 'ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)';

const epoch = 1_795_000_000_000_000_000n;
const line = (start: number, end: number, name: string, { stream = 7, blocks = 132 } = {}): string =>
  `${epoch + BigInt(1000 * start)}\t${epoch + BigInt(1000 * end)}\t${stream}\t4294967296\t${blocks}\t${name}\n`;

/** In microseconds: steps of 100 between norms that end at 0, 100 and 200, but the last of 150. */
const text = (shift: number): string =>
  [
    line(shift - 5, shift, norm),
    ...[0, 100, 200].flatMap((begin) => {
      const at = (start: number, end: number) => [shift + begin + start, shift + begin + end] as const;
      const length = begin === 200 ? 150 : 100;
      return [
        line(...at(5, 40), product),
        // Overlaps the one before, as a kernel does that is launched before that has ended.
        line(...at(35, 60), product),
        line(...at(10, 20), adamw, { stream: 9 }),
        line(...at(15, 30), gather, { stream: 13 }),
        line(...at(50, 80), scatter, { stream: 13 }),
        line(...at(85, 86), 'memcpy', { blocks: 0 }),
        line(...at(length - 5, length), norm),
      ];
    }),
  ].join('');

describe('parseTimelines', () => {
  it('gives milliseconds since the first of all ranks, and notes apart', () => {
    const [first, second] = parseTimelines([`# 3 records were dropped\n${text(0)}`, text(10)]);
    expect(first!.notes).toEqual(['3 records were dropped']);
    expect(first!.kernels[0]).toEqual({ start: 0, end: 0.005, stream: 7, node: '4294967296', blocks: 132, name: norm });
    expect(second!.kernels[0]!.start).toBe(0.01);
    expect(second!.notes).toEqual([]);
  });

  it('leaves out a last line without its end, and takes no other line', () => {
    const [cut] = parseTimelines([line(0, 1, norm) + line(2, 3, norm).slice(0, -9)]);
    expect(cut!.kernels).toHaveLength(1);
    expect(parseTimelines([''])).toEqual([{ kernels: [], notes: [] }]);
    expect(() => parseTimelines(['12\t13\n'])).toThrow('not a line of a timeline');
  });
});

it.each([
  [scatter, 132, 'reduce-scatter'],
  [gather, 132, 'all-gather'],
  ['ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)', 24, 'all-reduce'],
  ['ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)', 24, 'other NCCL'],
  [adamw, 132, 'AdamW'],
  ['void gpt2::adamw::cast_kernel(__nv_bfloat16*, float const*, long)', 132, 'model'],
  [norm, 1, 'model'],
  ['memset', 0, 'copies'],
  ['peer copy', 0, 'peer copies'],
])('%s is of its kind', (name, blocks, kind) => {
  expect(kindOf({ name, blocks })).toBe(kind);
});

it('spans are joined, and what two have in common is measured', () => {
  const spans = [
    { start: 5, end: 7 },
    { start: 0, end: 2 },
    { start: 1, end: 3 },
    { start: 3, end: 4 },
  ];
  expect(union(spans)).toEqual([
    { start: 0, end: 4 },
    { start: 5, end: 7 },
  ]);
  expect(common(union(spans), [{ start: 3, end: 6 }])).toBe(2);
  expect(common(union(spans), [])).toBe(0);
});

describe('a step', () => {
  const [{ kernels }] = parseTimelines([text(0)]) as [ReturnType<typeof parseTimelines>[number]];
  const steps = stepsOf(kernels);

  it('goes from the end of a norm to the end of the next; of the last ones the median is taken', () => {
    expect(steps.map(({ start, end }) => Math.round(1000 * (end - start)))).toEqual([100, 100, 150]);
    const lengths = (...all: number[]) => all.map((end) => ({ start: 0, end }));
    expect(typicalStep(lengths(9, 1, 3, 2))).toBe(3);
    expect(typicalStep(lengths(1, 1, 1, 7, 9, 8), 3)).toBe(5);
    expect(() => typicalStep([])).toThrow('no complete step');
  });

  it('is told by kernel: each from the end of the one before, calls of a layer apart', () => {
    const rows = timesByKernel(within(kernels, steps[1]!), steps[1]!, 1);
    const micro = (value: number) => Math.round(1000 * value);
    expect(rows.map(({ name, count, ms, gap }) => [name, count, micro(ms), micro(gap)])).toEqual([
      ['sm90::plain_kernel<true, false, (Epilogue)0, 208>, 2 of 2', 1, 20, 0],
      ['ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL', 1, 20, 0],
      ['adamw::adamw_kernel<float, float>', 1, 15, 5],
      ['ncclDevKernel_AllGather_RING_LL', 1, 10, 0],
      ['sm90::plain_kernel<true, false, (Epilogue)0, 208>, 1 of 2', 1, 10, 0],
      ['global_norm::norm_kernel', 1, 5, 9],
      ['memcpy', 1, 1, 5],
    ]);
    expect(micro(rows.reduce((sum, { ms, gap }) => sum + ms + gap, 0))).toBe(100);
  });

  it('is told by kind: how much ran beside our own kernels, alone, and when nothing ran', () => {
    const times = summarize(within(kernels, steps[1]!), steps[1]!);
    const micro = (value: number) => Math.round(1000 * value);
    expect(
      times.kinds.map(({ kind, count, ms, besideOurs, alone }) => [
        ...[kind, count, micro(ms), micro(besideOurs), micro(alone)],
      ]),
    ).toEqual([
      // 5 to 60 and the norm; AdamW, then the all-gather, then the reduce-scatter run beside it.
      ['model', 3, 60, 10, 60 - 20 - 10],
      ['AdamW', 1, 10, 10, 0],
      ['reduce-scatter', 1, 30, 10, 20],
      ['all-gather', 1, 15, 15, 0],
      ['copies', 1, 1, 0, 1],
    ]);
    expect([times.collectives.count, micro(times.collectives.ms), micro(times.collectives.besideOurs)]).toEqual([
      ...[2, 45, 25],
    ]);
    expect([micro(times.ms), micro(times.idle)]).toEqual([100, 100 - 55 - 20 - 1 - 5]);
  });

  it('cuts what crosses its ends', () => {
    const crossing = { start: 0.05, end: 0.25, stream: 1, node: '0', blocks: 1, name: product };
    expect(within([crossing], { start: 0.1, end: 0.2 })).toEqual([{ ...crossing, start: 0.1, end: 0.2 }]);
  });
});

describe('the trace', () => {
  const timelines = parseTimelines([text(0), text(3)]);
  const ranks = timelines.map(({ kernels }) => {
    const step = stepsOf(kernels)[1]!;
    return { step, kernels: within(kernels, step) };
  });

  it('has a process a rank, and no two events at once in a row', () => {
    const { traceEvents } = JSON.parse(chromeTrace(ranks));
    const spans = traceEvents.filter(({ ph }: { ph: string }) => ph === 'X');
    expect(spans).toHaveLength(14);
    expect(spans[0]).toMatchObject({ pid: 0, cat: 'model', name: product, args: { blocks: 132 } });
    expect(spans[0].ts).toBeCloseTo(5);
    expect(spans[0].dur).toBeCloseTo(35);
    const rows = new Map<string, number>();
    for (const { pid, tid, ts, dur } of spans) {
      expect(ts).toBeGreaterThanOrEqual((rows.get(`${pid} ${tid}`) ?? 0) - 1e-6);
      rows.set(`${pid} ${tid}`, ts + dur);
    }
    const names = traceEvents.filter(({ name, pid }: { name: string; pid: number }) => name === 'thread_name' && !pid);
    expect(names.map(({ args }: { args: { name: string } }) => args.name)).toEqual([
      ...['stream 7, model', 'stream 9, AdamW', 'stream 13, all-gather', 'stream 7, model'],
      ...['stream 13, reduce-scatter', 'stream 7, copies'],
    ]);
  });
});
