// Trains from options to the last checkpoint, alone or as one of several ranks.
import { attempt, Gpt2Error, InterruptedError, NativeError, UsageError, words } from '../base/errors.ts';
import { checkTrainOptions, namingSources } from '../options/read-options.ts';
import type { TrainOptions } from '../options/table.ts';
import { Ranks } from '../ranks/ranks.ts';
import { refuseBusyRun, whileIdle } from '../runs/lock.ts';
import { checkpointsFolder } from '../runs/paths.ts';
import { readRun } from '../runs/reader.ts';
import { tidy } from '../weights/checkpoint/write.ts';
import { withCallbacks } from './callbacks.ts';
import { type Settled, settle } from './plan/settle.ts';
import { checkHooks, type SessionHooks, StoppedError, type TrainHooks, type TrainResult } from './run/hooks.ts';
import { oneGpu, openRun } from './run/open-run.ts';
import type { Run } from './run/run.ts';
import { kindsAt, Session } from './run/session.ts';

/**
 * Trains as the options say (docs/api.md lists them).
 * @throws UsageError for invalid options; StoppedError after `signal`; the error of a function in `hooks`, after saving;
 * Gpt2Error for everything else a user can fix
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * const { out, loss } = await train({ ...small, steps: 2, valEvery: 0, out: 'runs/small' });
 */
export async function train(options: TrainOptions, hooks: TrainHooks = {}): Promise<TrainResult> {
  checkTrainOptions(options);
  checkHooks(hooks);
  return withCallbacks(hooks, (guarded) => namingSources(options, () => trainInPlace(options, guarded)));
}

async function trainInPlace(options: TrainOptions, hooks: SessionHooks): Promise<TrainResult> {
  const { place, onNotice = () => {} } = hooks;
  if (!place) {
    if ((options.ranks ?? 1) === 1) return trainHere(options, hooks);
    throw new UsageError(oneGpu);
  }
  const ranks = await Ranks.join(place, onNotice, hooks.signal);
  try {
    return await trainHere(options, hooks, ranks);
  } catch (error) {
    throw await endOf(ranks, error);
  } finally {
    ranks.close();
  }
}

/** The error with which every rank ends. A request to stop is no failure: all ranks leave, and each has its own. */
async function endOf(ranks: Ranks, error: unknown): Promise<unknown> {
  if (!(error instanceof StoppedError)) return ranks.fail(error);
  await ranks.leave();
  return error;
}

async function trainHere(options: TrainOptions, hooks: SessionHooks, ranks?: Ranks): Promise<TrainResult> {
  const notice = hooks.onNotice ?? (() => {});
  const { signal, onProgress } = hooks;
  const { resume, out } = options;
  // Before notices about how the run goes on. Other ranks would take the lock at the same time.
  if (resume && out !== undefined && (!ranks || ranks.isRoot)) refuseBusyRun(out);
  const settled = await settle(options, { notice, onProgress, signal }, ranks?.place).catch((error) => {
    throw error instanceof InterruptedError ? new StoppedError(error.message, signal) : error;
  });
  if (settled.options.dryRun) {
    throw new UsageError('train() does not take dryRun; planRun() plans a run without training');
  }
  const finished = finishedRun(settled);
  if (finished) {
    notice(
      words`the run in ${finished.out} is finished: ${finished.steps} of ${finished.steps} steps are done; give a larger --steps to continue`,
    );
    if (!ranks || ranks.isRoot) clearFinished(finished.out, notice);
    await ranks?.leave();
    return { ...finished, ...lossesOf(finished.out) };
  }
  const { onPage = (page) => page.close() } = hooks;
  const run = await openRun({ settled, notice, ranks, onPage });
  try {
    const result = await runSession(new Session(run, hooks), run);
    run.close();
    return { ...result, ...lossesOf(result.out) };
  } catch (error) {
    try {
      run.close();
    } catch (closing) {
      // The error that ended the run takes precedence.
      notice((closing as Error).message);
    }
    throw error;
  }
}

async function runSession(session: Session, { log, ranks }: Run): Promise<TrainResult> {
  try {
    const result = await (ranks ? Promise.race([session.run(), ranks.failed]) : session.run());
    log.flush();
    await ranks?.leave();
    return result;
  } catch (error) {
    const isDevice = error instanceof NativeError && error.status === 'GPT2_DEVICE_ERROR';
    const reported = isDevice ? session.deviceFailure(error) : error;
    // Before anything is closed: closing waits for collectives that other ranks have to give up.
    throw ranks ? await endOf(ranks, reported) : reported;
  } finally {
    await session.close();
  }
}

/** The result of a resumed run that has nothing left to do or to log. @throws Gpt2Error if --steps is fewer than it has done */
function finishedRun({ checkpoint, options: { out, steps } }: Settled): TrainResult | undefined {
  if (!checkpoint || out === undefined || steps === undefined) return undefined;
  const { step } = checkpoint.manifest;
  if (step > steps)
    throw new Gpt2Error(words`${out} has done ${step} steps; to continue, give --steps ${step + 1} or more`);
  return step === steps && kindsAt(out, step).includes('done') ? { out, steps } : undefined;
}

/** The last losses of a run; none if its log cannot be read. */
function lossesOf(out: string): Pick<TrainResult, 'loss' | 'valLoss'> {
  const run = attempt(() => readRun(out));
  if (run instanceof Gpt2Error) return {};
  const [loss, valLoss] = [run.series.train, run.series.val].map((series) => series.at(-1)?.[1]);
  return { ...(loss === undefined ? {} : { loss }), ...(valLoss === undefined ? {} : { valLoss }) };
}

/** Removes the remains of killed saves. */
function clearFinished(out: string, notice: (text: string) => void): void {
  whileIdle(out, () => {
    const { clearFailure } = tidy(checkpointsFolder(out), undefined);
    if (clearFailure !== undefined) notice(clearFailure);
  });
}
