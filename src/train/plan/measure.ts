// Measures the time of a training step for --dry-run: repeats a step of at most two micro-batches and an update for a few seconds.
import { InterruptedError, NativeError } from '../../base/errors.ts';
import { median } from '../../base/quantile.ts';
import type { ModelConfig } from '../../model/config.ts';
import { initializeWeights } from '../../model/initialize.ts';
import type { Pointer } from '../../native/bindings.generated.ts';
import type { Device } from '../../native/device.ts';
import type { BegunStep } from '../step/trainer.ts';
import { createTraining, type TrainingSizes } from '../step/training.ts';

/** Milliseconds: a measurement takes at most `most`, and ends after `enough` if two steps are done by then. */
const [most, enough] = [10_000, 2000];

/**
 * Measures the seconds of a step on one device, without the exchange between ranks; undefined if memory is too small. The
 * measurement trains new weights on arbitrary tokens at a learning rate of 0, which takes as long as real training.
 */
export async function measureStep(
  device: Device,
  config: ModelConfig,
  { rows, ...sizes }: TrainingSizes,
): Promise<number | undefined> {
  const { B, T } = sizes;
  const accumulation = (rows ?? B) / B;
  const measured = Math.min(accumulation, 2);
  try {
    const { model, trainer } = createTraining(device, config, { ...sizes, rows: measured * B });
    initializeWeights(model, 42);
    const tokens = Int32Array.from({ length: B * T }, (_, index) => (index * 7919) % config.vocabularySize);
    const marks: Pointer[] = [];
    const mark = () => {
      const event = device.createEvent();
      device.record(event);
      marks.push(event);
    };
    const nextBatch = () => {
      mark();
      return { inputs: tokens, targets: tokens };
    };
    const started = performance.now();
    const elapsed = () => performance.now() - started;
    let steps = 0;
    let previous: BegunStep | undefined;
    try {
      const isLeft = () => 2 * elapsed() > most;
      do {
        const begun = await trainer.begin(steps, 0, nextBatch, {}, undefined, steps === 0 ? isLeft : undefined);
        trainer.update();
        // Wait for the previous step, so that a GPU works while the host enqueues, as in a run. Only step 0 is awaited at once.
        await (steps === 0 ? begun : previous)?.finished();
        previous = begun;
        steps++;
      } while (elapsed() * (1 + 1 / steps) < most && (steps < 2 || elapsed() < enough));
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw error;
    }
    mark();
    await device.finished();
    if (steps === 0) return (accumulation * device.elapsed(marks[0]!, marks[1]!)) / 1000;
    // Drop the first half of the steps as a warmup: the JavaScript compiler slows the first steps of a process (throughput.ts).
    const after = Array.from({ length: steps }, (_, step) => step * measured).slice(Math.floor(steps / 2));
    const between = (marksLater: number) =>
      median(after.map((at) => device.elapsed(marks[at]!, marks[at + marksLater]!)));
    const more = accumulation > measured ? (accumulation - measured) * between(1) : 0;
    return (between(measured) + more) / 1000;
  } catch (error) {
    if (error instanceof NativeError && error.status === 'GPT2_OUT_OF_MEMORY') return undefined;
    throw error;
  }
}
