// Runs a card's kernels once at each of the op's sizes in a training step. Under a profiler (ncu), only these runs are measured.
import { Gpt2Error } from '../base/errors.ts';
import type { Device } from '../native/device.ts';
import { loadShared } from '../native/koffi.ts';
import type { OpVariant } from '../ops/contract.ts';
import { replacementOf } from '../ops/replacements.ts';
import { type Calls, callsBySize } from './step-calls.ts';

/**
 * @param launched returns the number of kernel launches so far
 * @returns a line per size, in the order of the profiler's results: "  N 8192, C 768, 24 calls a step, kernels in a call: 2"
 */
export async function profileOp(device: Device, variant: OpVariant, calls: Calls, launched: () => number) {
  const driver = loadShared('libcuda.so.1');
  const callDriver = (name: 'cuProfilerStart' | 'cuProfilerStop') => {
    const status = driver.func(`int ${name}()`)() as number;
    if (status !== 0) throw new Gpt2Error(`${name} of the CUDA driver failed with error ${status}`);
  };
  const profiled: string[] = [];
  for (const [sizes, [call, ...others]] of callsBySize(variant, calls, device.dtype)) {
    const before = launched();
    // The library's kernels write the inputs: wait until they have ended, because only the user's kernels are profiled.
    await device.finished();
    callDriver('cuProfilerStart');
    replacementOf(device, variant.op, call.given)!(call.given, call.args);
    await device.finished();
    callDriver('cuProfilerStop');
    const count = others.length + 1;
    const calls = `${count} ${count === 1 ? 'call' : 'calls'}`;
    profiled.push(`  ${sizes}, ${calls} a step, kernels in a call: ${launched() - before}`);
  }
  return profiled;
}
