// Times a user's kernel and the library's op on the tensors of a real training step.
import type { Device } from '../native/device.ts';
import type { OpCases } from '../ops/cases/op-case.ts';
import { workspaceOf } from '../ops/contract.ts';
import { replacementOf } from '../ops/replacements.ts';
import { readClocks, toolsName } from '../report/machine-load.ts';
import { enqueueAgain, workOf } from './bench/op-times.ts';
import { leastMs } from './bench/peaks.ts';
import { timeCold, timeOnDevice } from './bench/timing.ts';
import { callsBySize, type RecordedCall, type StepCalls } from './step-calls.ts';

/** Milliseconds of one call. Cold: no tensor is in a cache. Hot: the tensors are in the last-level cache, as far as they fit. */
export interface Times {
  readonly cold: number;
  readonly hot: number;
}

/** Times of an op at one of its sizes in a training step. `ours`: the library's op; `own`: the user's kernel. */
export interface OpBench {
  readonly sizes: string;
  /** Number of calls in a step. */
  readonly calls: number;
  readonly flops: number;
  readonly bytes: number;
  /** Milliseconds of a call at the device's best rates (peaks.ts): no kernel can be faster. */
  readonly bound: number;
  readonly ours: Times;
  readonly own: Times;
}

export type Benched = Awaited<ReturnType<typeof benchOp>>;

/**
 * Fills of a buffer with zeros, to evict a call's tensors from the caches: the buffer is larger than twice any GPU's L2 cache. Eight fills
 * keep an H100 busy for 0.7 ms, in which the host enqueues any kernel. After one fill (0.09 ms), the host added 0.01 to 0.4 ms to times.
 */
const flushed = { cuda: { bytes: 256 << 20, times: 8 }, cpu: { bytes: 32 << 20, times: 1 } };

interface BenchOpOptions {
  /** Index of the GPU whose clocks are read. Default: none. */
  readonly gpu?: number;
  /** Called after each measurement, when no kernel runs: the caller stops the clock of the kernel's time limit. */
  readonly onIdle?: () => void;
  /** Measures only briefly, about a second: reuses the library's times, and repeats slow kernels less often. */
  readonly isBrief?: boolean;
}

/** Milliseconds after which a brief measurement stops repeating. A call that takes longer is measured only once. */
const enoughOfBrief = 40;

/** The library's times, by recorded call, for later brief measurements. */
const oursOf = new WeakMap<RecordedCall, Times>();

/** Times the kernel that replaces the op on this device, and the library's op, at each of the op's sizes in a step. */
export async function benchOp(
  device: Device,
  { variant }: OpCases,
  { peaks, calls }: StepCalls,
  { gpu, onIdle = () => {}, isBrief = false }: BenchOpOptions = {},
) {
  const groups = callsBySize(variant, calls, device.dtype);
  const first = calls.get(variant)![0]!;
  const replacement = replacementOf(device, variant.op, first.given)!;
  const { library } = device.description;
  using memory = device.allocate(flushed[library].bytes, 'cache flush');
  const flush = () => {
    const fill = { destination: memory.pointer, bytes: memory.bytes };
    for (let time = 0; time < flushed[library].times; time++) device.call('fillZero', fill);
  };
  const enough = isBrief ? enoughOfBrief : undefined;
  const times = async (run: () => void): Promise<Times> => {
    // Run once outside of a graph: the first call may allocate memory, which is not allowed while a graph is recorded.
    const first = await timeCold(device, run, flush, 0);
    const once = isBrief && first > enoughOfBrief;
    const hot = once ? first : await timeOnDevice(device, run, library === 'cuda' ? 20 : 2, { enough });
    const cold = once ? first : await timeCold(device, run, flush, enough);
    onIdle();
    return { cold, hot };
  };
  const results: OpBench[] = [];
  for (const [sizes, [call, ...others]] of groups) {
    device.reserveWorkspace(workspaceOf(device, variant.op, call!.args));
    const ours = (isBrief && oursOf.get(call!)) || (await times(() => enqueueAgain(device, call!)));
    oursOf.set(call!, ours);
    const own = await times(() => replacement(call!.given, call!.args));
    const work = workOf(device, call!);
    results.push({ sizes, calls: others.length + 1, ...work, bound: leastMs(peaks, work), ours, own });
  }
  const run = () => replacement(first.given, first.args);
  const clocks = gpu === undefined ? null : await clocksWhile(device, gpu, run, results[0]!.own.hot);
  onIdle();
  // Free the graphs that the measurements recorded.
  device.dropGraphs();
  return { results, clocks };
}

/** GPU clocks (text of nvidia-smi) while the kernel, of `ms` milliseconds, runs for about 0.3 s; null without nvidia-smi. */
async function clocksWhile(device: Device, gpu: number, run: () => void, ms: number): Promise<string | null> {
  for (let left = Math.min(3000, Math.ceil(300 / ms)); left > 0; left--) run();
  const clocks = readClocks(toolsName(gpu));
  await device.finished();
  return clocks;
}
