// Ends a run whose step has a loss or gradient that is not finite: locates the tensor where it began, captures the step, saves the
// state, and reports all of that in one line. The device has left the weights as they were before the step.
import { attempt, Gpt2Error, gpt2Error, words } from '../../base/errors.ts';
import { continueWith, shellWord } from '../../base/wording.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { Position } from '../../data/batches/order.ts';
import { ChangedShardError } from '../../data/shards/shard.ts';
import { capturesFolder } from '../../runs/paths.ts';
import { captured, writeCapture } from '../../weights/checkpoint/capture.ts';
import { describeFinding, type Finding, locate } from '../failure/locate.ts';
import type { StepResult } from '../step/staging.ts';
import type { Events } from './events.ts';
import type { Run } from './run.ts';
import type { Saving } from './saving.ts';

/** A step that updated nothing because its loss or norm was not finite. */
interface BadStep {
  readonly step: number;
  readonly result: StepResult;
  /** The step's first micro-batch. */
  readonly position: Position;
  /** The step's micro-batches, from the first. */
  readonly nextBatch: () => Batch;
}

/** Locates the cause, saves, and returns the error that ends the run. */
export async function stopAtBadStep(run: Run, bad: BadStep, saving: Saving, events: Events): Promise<Gpt2Error> {
  const { ranks } = run;
  const { step, result, position } = bad;
  const { loss, norm } = result;
  ranks?.liveness.rest();
  const summary = `step ${step} is not finite (loss ${loss}, norm ${norm})`;
  events.notice(`${summary}: computing it again to find where it began`);
  // The next step may have been enqueued already.
  await run.trained.model.device.finished();
  const located = await locateAgain(run, bad);
  const own = located.finding && describeFinding(located.finding);
  const findings = (await ranks?.allGather(own)) ?? [own];
  const rank = findings.findIndex((each) => typeof each === 'string');
  const began =
    rank >= 0
      ? `${ranks ? `${ranks.name(rank)}, ` : ''}${findings[rank]}`
      : (located.changed ?? 'every gradient is finite, but their norm is over the range of fp32');
  const { capture, text } = tryCapture(run, bad, located);
  const saved = await save(run, step, position, located.finding, saving);
  // After the save, whose log ends before the step: a resumed run repeats the step.
  events.log({ event: 'nonFinite', step, loss, norm, finding: began, ...(capture === undefined ? {} : { capture }) });
  return gpt2Error`${summary}; ${began}; ${text}; ${saved}`;
}

/** @returns `changed`: message about a shard that changed, so that the step's tokens are lost; the state can still be saved */
async function locateAgain({ trained }: Run, { nextBatch }: BadStep) {
  const batches: Batch[] = [];
  try {
    const { finding } = await locate(trained.trainer, () => {
      const { inputs, targets } = nextBatch();
      const batch = { inputs: inputs.slice(), targets: targets.slice() };
      batches.push(batch);
      return batch;
    });
    return { finding, batches, changed: undefined };
  } catch (error) {
    if (!(error instanceof ChangedShardError)) throw error;
    return { finding: undefined, batches, changed: error.message };
  }
}

/** Captures the step. @returns the path, if there is one, and a clause for the error message */
function tryCapture(
  { trained, options, folder, ranks }: Run,
  { step, result, position }: BadStep,
  { finding, batches, changed }: Awaited<ReturnType<typeof locateAgain>>,
): { capture?: string; text: string } {
  // Loss and norm are those of all ranks, the tokens those of one.
  if (ranks) return { text: 'a step of several ranks is not captured' };
  if (changed !== undefined) return { text: 'not captured' };
  const { model, trainer } = trained;
  const { program, configuration } = folder;
  const capture = attempt(() =>
    writeCapture(capturesFolder(folder.out), { model, gradients: trainer.gradients }, batches, {
      ...{ program, step, position, finding, cards: configuration.cards },
      ...{ batch: options.batch, sequence: options.sequence, accumulation: options.accumulation },
      ...{ loss: captured(result.loss), norm: captured(result.norm) },
    }),
  );
  if (capture instanceof Gpt2Error) return { text: capture.message };
  const kernels = (options.kernels ?? []).map((folder) => words` --kernel ${shellWord(folder)}`).join('');
  return { capture, text: `captured: \`npm run gpt2 -- replay ${capture}${kernels}\` computes it again` };
}

/** Saves the state before the step, unless its weights are not finite. */
async function save(
  run: Run,
  step: number,
  position: Position,
  finding: Finding | undefined,
  saving: Saving,
): Promise<string> {
  if (finding && finding.microBatch === undefined) {
    return words`not saved, because the weights themselves are not finite: start from an earlier checkpoint with --model, or again with a smaller --lr and --overwrite`;
  }
  try {
    await saving.saveNow(step, position);
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    return error.message;
  }
  return words`saved the state before the step; ${continueWith(run.folder.out)} and a smaller --lr, or --skip-spikes Z; if that ends the same way, start from an earlier checkpoint with --model`;
}
