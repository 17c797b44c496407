// Ends a run after a step whose loss or gradient norm is not finite: computes the step again to find the first tensor that is not
// finite, writes a capture for `replay`, saves the state from before the step, and reports the result in one line. The device did
// not update the weights in that step.
import { attempt, expected, Gpt2Error, gpt2Error, NativeError, words } from '../../base/errors.ts';
import { shellWord } from '../../base/wording.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { Position } from '../../data/batches/order.ts';
import { capturesFolder } from '../../runs/paths.ts';
import { captured, writeCapture } from '../../weights/checkpoint/capture.ts';
import { describeFinding, type Finding, locate } from '../failure/locate.ts';
import type { StepResult } from '../step/staging.ts';
import type { Events } from './events.ts';
import { continuationOf, type Run, smallerRate } from './run.ts';
import type { Saving } from './saving.ts';

/** A step that updated nothing because its loss or norm was not finite. */
interface BadStep {
  readonly step: number;
  readonly result: StepResult;
  /** Position of the step's first micro-batch in the data. */
  readonly position: Position;
  /** Returns the step's next micro-batch; after `seek()`, the first. */
  readonly nextBatch: () => Batch;
  readonly seek: () => void;
}

/** Locates the first number that is not finite, saves the run, and returns the error that ends the run. */
export async function stopAtBadStep(run: Run, bad: BadStep, saving: Saving, events: Events): Promise<Gpt2Error> {
  const { ranks } = run;
  const { step, result, position } = bad;
  const { loss, norm } = result;
  ranks?.liveness.rest();
  const summary = `step ${step} is not finite (loss ${loss}, norm ${norm})`;
  events.notice(`${summary}: computing it again to find where it began`);
  // Wait for the device, because the next step may have been enqueued already.
  await run.trained.model.device.finished();
  const located = await locateAgain(run, bad);
  const description = located.finding && describeFinding(located.finding);
  const findings = (await ranks?.allGather(description)) ?? [description];
  const rank = findings.findIndex((each) => typeof each === 'string');
  const began =
    rank >= 0
      ? `${ranks ? `${ranks.name(rank)}, ` : ''}${findings[rank]}`
      : (located.changed ?? 'every gradient is finite, but their norm is over the range of fp32');
  const { capture, text } = tryCapture(run, bad, located);
  const saved = await save(run, step, position, located.finding, saving);
  // Log after the save: the part of the log that the checkpoint counts must not hold this step, because a resumed run repeats it.
  events.log({ event: 'nonFinite', step, loss, norm, finding: began, ...(capture === undefined ? {} : { capture }) });
  return gpt2Error`${summary}; ${began}; ${text}; ${saved}`;
}

/** Computes the step again. @returns `changed`: why the step's tokens cannot be read again, such as a changed shard; else undefined */
async function locateAgain({ trained }: Run, { step, nextBatch, seek }: BadStep) {
  const batches: Batch[] = [];
  try {
    seek();
    const next = () => {
      const { inputs, targets } = nextBatch();
      const batch = { inputs: inputs.slice(), targets: targets.slice() };
      batches.push(batch);
      return batch;
    };
    const { finding } = await locate(trained.trainer, next, step);
    return { finding, batches, changed: undefined };
  } catch (error) {
    if (!(error instanceof Gpt2Error) || error instanceof NativeError) throw error;
    return { finding: undefined, batches, changed: error.message };
  }
}

/** Writes a capture of the step, if possible. @returns the capture's path, if any, and a clause for the error message */
function tryCapture(
  { trained, options, folder, ranks }: Run,
  { step, result, position }: BadStep,
  { finding, batches, changed }: Awaited<ReturnType<typeof locateAgain>>,
): { capture?: string; text: string } {
  if (position.ofProgram) return { text: 'batches of a program are not captured' };
  // A capture holds the tokens of one rank, but loss and norm depend on the tokens of all ranks.
  if (ranks) return { text: 'a step of several ranks is not captured' };
  if (changed !== undefined) return { text: 'not captured' };
  const { model, trainer } = trained;
  const { program, configuration } = folder;
  const capture = attempt(() =>
    writeCapture(capturesFolder(folder.out), { model, gradients: trainer.gradients }, batches, {
      ...{ program, step, position, finding, cards: configuration.cards, windows: trainer.options.windowsAt?.(step) },
      ...{ batch: options.batch, sequence: options.sequence, accumulation: options.accumulation },
      ...{ loss: captured(result.loss), norm: captured(result.norm) },
    }),
  );
  if (capture instanceof Gpt2Error) return { text: capture.message };
  const kernels = (options.kernels ?? []).map((folder) => words` --kernel ${shellWord(folder)}`).join('');
  return { capture, text: `captured: \`npm run gpt2 -- replay ${capture}${kernels}\` computes it again` };
}

/** Saves the state from before the step, unless its weights are not finite. @returns a clause for the error message */
async function save(
  run: Run,
  step: number,
  position: Position,
  finding: Finding | undefined,
  saving: Saving,
): Promise<string> {
  if (finding && finding.microBatch === undefined) {
    return words`not saved, because the weights themselves are not finite: start from an earlier checkpoint with --model, or again with ${smallerRate(run)} and --overwrite`;
  }
  const failure = await saving.saveNow(step, position).catch(expected);
  if (failure) return failure.message;
  return words`saved the state before the step; ${continuationOf(run)} and ${smallerRate(run)}, or --skip-spikes Z; if that ends the same way, start from an earlier checkpoint with --model`;
}
