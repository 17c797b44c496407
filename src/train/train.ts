// A training run from options to the last checkpoint: opens data, device and run folder, then the loop (session.ts). What a step
// computes is in trainer.ts.
import { tidy } from '../checkpoint/write.ts';
import { Gpt2Error, NativeError, UsageError } from '../errors.ts';
import type { TrainOptions } from '../options/table.ts';
import { Ranks } from '../ranks/ranks.ts';
import { whileIdle } from '../runs/lock.ts';
import { checkpointsFolder } from '../runs/paths.ts';
import { oneGpu, openRun } from './run.ts';
import { kindsAt, Session, StoppedError, type TrainHooks, type TrainResult } from './session.ts';
import { type Settled, settle } from './settle.ts';

/**
 * Trains as the options say (src/options/table.ts).
 * @throws UsageError for options that cannot be; StoppedError after `signal`; Gpt2Error for everything else a user can mend
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * const { out, steps } = await train({ ...small, steps: 2, valEvery: 0, out: 'runs/small' });
 */
export async function train(options: TrainOptions, hooks: TrainHooks = {}): Promise<TrainResult> {
  const { place, onNotice = () => {} } = hooks;
  if (!place) {
    if ((options.ranks ?? 1) === 1) return trainHere(options, hooks);
    throw new UsageError(oneGpu);
  }
  const ranks = await Ranks.join(place, onNotice, hooks.signal);
  try {
    return await trainHere(options, hooks, ranks);
  } catch (error) {
    throw await ended(ranks, error);
  } finally {
    ranks.close();
  }
}

/** What every rank ends with. Being asked to stop is nothing wrong: then all part. */
async function ended(ranks: Ranks, error: unknown): Promise<unknown> {
  if (!(error instanceof StoppedError)) return ranks.fail(error);
  await ranks.leave();
  return error;
}

async function trainHere(options: TrainOptions, hooks: TrainHooks, ranks?: Ranks): Promise<TrainResult> {
  const notice = hooks.onNotice ?? (() => {});
  const settled = settle(options, notice, ranks?.place);
  if (settled.options.dryRun) {
    throw new UsageError('dryRun says what a run would take, and train() trains: planRun() is what says it');
  }
  const finished = finishedRun(settled);
  if (finished) {
    notice(
      `the run in ${finished.out} is finished: ${finished.steps} of ${finished.steps} steps are done; a larger --steps goes on`,
    );
    if (!ranks || ranks.isRoot) clearFinished(finished.out, notice);
    await ranks?.leave();
    return finished;
  }
  const run = await openRun(settled, notice, ranks);
  try {
    const session = new Session(run, hooks);
    try {
      const result = await (ranks ? Promise.race([session.run(), ranks.failed]) : session.run());
      run.log.settle();
      await ranks?.leave();
      return result;
    } catch (error) {
      const told = error instanceof NativeError && error.status === 'GPT2_DEVICE_ERROR' ? session.lost(error) : error;
      // Before anything is closed: what other ranks wait for has to be given up first.
      throw ranks ? await ended(ranks, told) : told;
    } finally {
      await session.close();
    }
  } catch (error) {
    try {
      run.close();
    } catch (closing) {
      // The error that ended the run takes precedence.
      notice((closing as Error).message);
    }
    throw error;
  } finally {
    run.close();
  }
}

/** The run that is resumed, if nothing of it is left to do or to tell. @throws Gpt2Error if it is to end before it is */
function finishedRun({ checkpoint, options: { out, steps } }: Settled): TrainResult | undefined {
  if (!checkpoint || out === undefined || steps === undefined) return undefined;
  const { step } = checkpoint.manifest;
  if (step > steps) throw new Gpt2Error(`${out} has done ${step} steps; to go on give --steps ${step + 1} or more`);
  return step === steps && kindsAt(out, step).includes('done') ? { out, steps } : undefined;
}

/** Removes what a killed save left. */
function clearFinished(out: string, notice: (text: string) => void): void {
  whileIdle(out, () => {
    const { clearFailure } = tidy(checkpointsFolder(out), undefined);
    if (clearFailure !== undefined) notice(clearFailure);
  });
}
