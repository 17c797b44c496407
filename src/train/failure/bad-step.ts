// Ends a run whose step has a loss or gradient that is not finite: locates the tensor where it began, captures the step, saves the
// state, and says all of that in one line. The device has left the weights as they were before the step.
import type { Batch } from '../../batches/loader.ts';
import type { Position } from '../../batches/order.ts';
import { captured, writeCapture } from '../../checkpoint/capture.ts';
import { Gpt2Error } from '../../errors.ts';
import { capturesFolder } from '../../runs/paths.ts';
import { ChangedShardError } from '../../shards/shard.ts';
import type { Run } from '../run/open-run.ts';
import type { Saving, SavingHooks } from '../run/saving.ts';
import type { StepResult } from '../step/staging.ts';
import { describeFinding, type Finding, locate } from './locate.ts';

/** A step that updated nothing because its loss or norm was not finite. */
export interface BadStep {
  readonly step: number;
  readonly result: StepResult;
  /** The step's first micro-batch. */
  readonly position: Position;
  /** The step's micro-batches, from the first. */
  readonly nextBatch: () => Batch;
}

/** Locates the cause, saves, and returns the error that ends the run. */
export async function stopAtBadStep(
  run: Run,
  { step, result, position, nextBatch }: BadStep,
  saving: Saving,
  { log, notice }: SavingHooks,
): Promise<Gpt2Error> {
  const { model, trainer, options, out, program, ranks } = run;
  const { loss, norm } = result;
  ranks?.rest();
  const what = `step ${step} is not finite (loss ${loss}, norm ${norm})`;
  notice(`${what}: computing it again to find where it began`);
  // The next step may have been issued already.
  await model.device.finished();
  const batches: Batch[] = [];
  let changed: string | undefined;
  const { finding } = await locate(trainer, () => {
    const { inputs, targets } = nextBatch();
    batches.push({ inputs: inputs.slice(), targets: targets.slice() });
    return batches.at(-1)!;
  }).catch((error) => {
    // A changed shard no longer gives the step's tokens, but the state before the step can be saved.
    if (!(error instanceof ChangedShardError)) throw error;
    changed = error.message;
    return { finding: undefined };
  });
  const findings = (await ranks?.allGather(finding && describeFinding(finding))) ?? [
    finding && describeFinding(finding),
  ];
  const finder = findings.findIndex((each) => typeof each === 'string');
  const where = ranks && finder >= 0 ? `${ranks.name(finder)}, ` : '';
  const began =
    finder >= 0
      ? `${where}${findings[finder]}`
      : (changed ?? 'every gradient is finite, but their norm is over what fp32 holds');
  const attempt = (work: () => string): string => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
      return error.message;
    }
  };
  let capture: string | undefined;
  const captureText = attempt(() => {
    // Loss and norm belong to all ranks, the tokens to one.
    if (ranks) return 'a step of several ranks is not captured';
    if (changed !== undefined) return 'not captured';
    capture = writeCapture(capturesFolder(out), { model, gradients: trainer.gradients }, batches, {
      ...{ program, step, position, finding },
      ...{ batch: options.batch, sequence: options.sequence, accumulation: options.accumulation },
      ...{ loss: captured(loss), norm: captured(norm) },
    });
    return `captured: \`npm run gpt2 -- replay ${capture}\` computes it again`;
  });
  const saved = await save(run, step, position, finding, saving);
  // After the save, whose log ends before the step: a resumed run repeats the step.
  log({ event: 'nonFinite', step, loss, norm, finding: began, ...(capture === undefined ? {} : { capture }) });
  return new Gpt2Error(`${what}; ${began}; ${captureText}; ${saved}`);
}

/** Saves the state before the step, unless its weights are not finite. */
async function save(
  { out }: Run,
  step: number,
  position: Position,
  finding: Finding | undefined,
  saving: Saving,
): Promise<string> {
  if (finding && finding.microBatch === undefined) return 'not saved, the weights themselves are not finite';
  try {
    await saving.saveNow(step, position);
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    return error.message;
  }
  return `saved as it was before the step; go on with --out ${out} --resume and a smaller --lr, or --skip-spikes Z; if that ends the same way, start from an earlier checkpoint with --model`;
}
