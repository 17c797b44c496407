// Runs a card's kernels once for each of the sizes that their op has in a training step, and lets a profiler measure just these.
import { Gpt2Error } from '../errors.ts';
import type { Device } from '../native/device.ts';
import { loadShared } from '../native/koffi.ts';
import type { OpContract } from '../ops/contract.ts';
import { replacementOf } from '../ops/replacements.ts';
import { type Calls, callsBySize } from './step-calls.ts';

/** A call of the op. */
export interface ProfiledCall {
  readonly sizes: string;
  /** Such calls in a step. */
  readonly calls: number;
  /** Kernels that it launched, in the order of the profiler's results. */
  readonly launches: number;
}

/** @param launched the number of launches up to now */
export async function profileOp(
  device: Device,
  op: OpContract,
  calls: Calls,
  launched: () => number,
): Promise<readonly ProfiledCall[]> {
  const driver = loadShared('libcuda.so.1');
  const [start, stop] = (['cuProfilerStart', 'cuProfilerStop'] as const).map((name) => {
    const call = driver.func(`int ${name}()`);
    return () => {
      const status = call() as number;
      if (status !== 0) throw new Gpt2Error(`${name} of the CUDA driver failed with error ${status}`);
    };
  }) as [() => void, () => void];
  const replacement = replacementOf(device, op.name)!;
  const profiled: ProfiledCall[] = [];
  for (const [sizes, [call, ...others]] of callsBySize(op, calls, device.dtype)) {
    const before = launched();
    // The library's kernels that wrote the tensors.
    await device.finished();
    start();
    replacement(call.given, call.args);
    await device.finished();
    stop();
    profiled.push({ sizes, calls: others.length + 1, launches: launched() - before });
  }
  return profiled;
}
