// Steps of over 5 s: their micro-batches are counted, and a request to stop leaves such a step.
import type { SessionHooks } from './hooks.ts';
import type { Run } from './run.ts';
import type { Throughput } from './throughput.ts';

/** A step that takes this many milliseconds is long. */
const longStep = 5000;

/**
 * A function for a step that begins now and may be long: it reports the number of finished micro-batches, and returns whether
 * the step ends there, unsaved. Undefined for a short step. Ranks end a step together.
 */
export function watchStep(
  { ranks, options: { accumulation } }: Pick<Run, 'ranks' | 'options'>,
  { onMicroBatch, signal }: SessionHooks,
  throughput: Throughput,
): ((done: number) => boolean) | undefined {
  if (accumulation === 1 || (throughput.step ?? longStep) < longStep) return undefined;
  const begunAt = performance.now();
  return (done) => {
    const expected = ((performance.now() - begunAt) * accumulation) / done;
    if ((throughput.step ?? expected) < longStep) return false;
    onMicroBatch?.(done, accumulation);
    return !ranks && signal.aborted;
  };
}
