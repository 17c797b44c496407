// Runs a training from its options to the last checkpoint, in a single process or as one of several ranks.
import { Readable } from 'node:stream';
import { attempt, Gpt2Error, gpt2Error, InterruptedError, UsageError, usageError, words } from '../base/errors.ts';
import { nameSources, resolveSources, type Sources } from '../options/sources.ts';
import { isRoot, Ranks } from '../ranks/ranks.ts';
import { refuseBusyRun, whileIdle } from '../runs/lock.ts';
import { checkpointsFolder } from '../runs/paths.ts';
import { eventsAt, readRun } from '../runs/reader.ts';
import type { RunEvent } from '../runs/schema.ts';
import { tidy } from '../weights/checkpoint/write.ts';
import { type ProgramOptions, type ProgramParts, splitParts } from './plan/program-parts.ts';
import { type Resolved, resolveOptions } from './plan/resolve-options.ts';
import { boundHooks, checkHooks, guardHooks, StoppedError, type TrainHooks, type TrainResult } from './run/hooks.ts';
import { oneGpu, openRun } from './run/open-run.ts';
import { Resources } from './run/opening.ts';
import { Session } from './run/session.ts';

/**
 * Trains as the options say (docs/api.md lists them). A program may pass schedule, optimizer, batches and validation
 * (`ProgramParts`).
 * @throws UsageError for invalid options; StoppedError after `signal`; the error of a function in `hooks`, after saving;
 * Gpt2Error for everything else a user can fix
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * const { out, loss } = await train({ ...small, steps: 2, valEvery: 0, out: 'runs/small' });
 *
 * let read = 0; // a program's batches; with position and seek, a resumed run continues at the next batch
 * const batches = {
 *   next: () => ({ inputs: new Int32Array(64).fill(read++), targets: new Int32Array(64).fill(read) }),
 *   position: () => read,
 *   seek: (position: number) => void (read = position),
 * };
 * await train({ ...small, steps: 2, schedule: (step) => 1e-3 / (step + 1), batches, out: 'runs/parts' });
 */
export async function train(options: ProgramOptions, hooks: TrainHooks = {}): Promise<TrainResult> {
  checkHooks(hooks);
  const { options: plain, parts } = splitParts(options);
  if (plain.json) throw usageError`json has no effect in train(), which prints nothing; take the json of onEvent`;
  return trainSources(resolveSources(plain), hooks, parts);
}

/**
 * Trains as the options say, yields each event once it is in the run log, and returns the result of the run. Leaving the loop early
 * saves the run and stops it after the step in progress, as Ctrl-C does.
 * @throws as `train`
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * for await (const event of trainEvents({ ...small, steps: 2, valEvery: 0, out: 'runs/events' })) {
 *   if (event.event === 'train') console.log(event.step, event.loss);
 * }
 */
export async function* trainEvents(
  options: ProgramOptions,
  hooks: Omit<TrainHooks, 'signal' | 'onEvent'> = {},
): AsyncGenerator<RunEvent, TrainResult> {
  const controller = new AbortController();
  const events = new Readable({ objectMode: true, read() {} });
  const onEvent = (event: RunEvent) => void events.push(event);
  checkHooks(hooks);
  for (const name of ['signal', 'onEvent'] as const) {
    if ((hooks as TrainHooks)[name])
      throw usageError`trainEvents() takes no ${name}: it yields the events, and leaving its loop stops the run; train() takes ${name}`;
  }
  const run = train(options, { ...boundHooks(hooks), signal: controller.signal, onEvent }).finally(() =>
    events.push(null),
  );
  // `await run` below throws the error; until then the rejection must not count as unhandled.
  run.catch(() => {});
  try {
    yield* events as AsyncIterable<RunEvent>;
    return await run;
  } finally {
    controller.abort(0);
    await run.catch((error) => {
      if (!(error instanceof StoppedError)) throw error;
    });
  }
}

/** Trains as `train` does, from options already merged with --config, --preset and --recipe. */
export async function trainSources(
  sources: Sources,
  ofProgram: TrainHooks,
  parts: ProgramParts = {},
): Promise<TrainResult> {
  const { options: asked } = sources;
  const hooks = guardHooks(ofProgram);
  const { place, signal, onProgress, onNotice: notice = () => {}, onPage = (page) => page.close() } = hooks;
  const resources = new Resources();
  let ranks: Ranks | undefined;
  let session: Session | undefined;
  let result: TrainResult | undefined;
  let failure: { readonly error: unknown } | undefined;
  try {
    if (!place && (asked.ranks ?? 1) > 1) throw new UsageError(oneGpu);
    if (place) ranks = resources.keep(await Ranks.join(place, notice, signal));
    const { resume, out } = asked;
    // Before notices about resuming, check that no other process writes the run: on rank 0 only, as the check briefly takes the run's lock.
    if (resume && out !== undefined && isRoot(ranks)) refuseBusyRun(out);
    const resolve = () => resolveOptions(asked, { notice, onProgress, signal }, place, parts);
    const resolved = await (ranks ? ranks.afterRoot(resolve) : resolve());
    result = finishedRun(resolved);
    if (result) reportFinished(result, isRoot(ranks), notice);
    else {
      resolved.changes.forEach(notice);
      const run = await openRun({ resolved, notice, onPage, ranks, resources });
      session = resources.keep(new Session(run, hooks));
      result = await (ranks ? Promise.race([session.run(), ranks.failed]) : session.run());
      run.folder.log.flush();
    }
    await ranks?.leave();
    await resources.close();
  } catch (error) {
    const ended =
      error instanceof InterruptedError ? new StoppedError(error.message, signal) : nameSources(error, sources);
    // Tell the other ranks before closing anything: closing waits for collectives, which the other ranks must abandon first.
    failure = { error: await endOf(ranks, session?.describe(ended) ?? ended) };
    // An earlier error takes precedence over an error of closing.
    await resources.close().catch((closing: Error) => notice(closing.message));
  }
  await hooks.ended(failure);
  return { ...result!, ...lossesOf(result!.out) };
}

/** The error with which this rank ends. After a failure all ranks end with the same error; a request to stop is no failure. */
async function endOf(ranks: Ranks | undefined, error: unknown): Promise<unknown> {
  if (!ranks) return error;
  if (!(error instanceof StoppedError)) return ranks.fail(error);
  await ranks.leave();
  return error;
}

/**
 * The result of a resumed run that has nothing left to do or to log; undefined for any other run.
 * @throws UsageError for --dry-run; Gpt2Error if --steps is less than the steps already done
 */
function finishedRun({ checkpoint, options: { out, steps, dryRun } }: Resolved): TrainResult | undefined {
  if (dryRun) throw usageError`train() does not take dryRun; planRun() plans a run without training`;
  if (!checkpoint || out === undefined || steps === undefined) return undefined;
  const { step } = checkpoint.manifest;
  if (step > steps) throw gpt2Error`${out} has done ${step} steps; to continue, give --steps ${step + 1} or more`;
  return step === steps && eventsAt(out, step).some(({ event }) => event === 'done') ? { out, steps } : undefined;
}

/** Prints that the run is finished. If `tidies` (on rank 0), also removes the remains of interrupted saves. */
function reportFinished({ out, steps }: TrainResult, tidies: boolean, notice: (text: string) => void): void {
  notice(words`the run in ${out} is finished: ${steps} of ${steps} steps are done; give a larger --steps to continue`);
  if (!tidies) return;
  whileIdle(out, () => {
    const { clearFailure } = tidy(checkpointsFolder(out), undefined);
    if (clearFailure !== undefined) notice(clearFailure);
  });
}

/** The last losses of a run; none if its log cannot be read. */
function lossesOf(out: string): Pick<TrainResult, 'loss' | 'valLoss'> {
  const run = attempt(() => readRun(out));
  if (run instanceof Gpt2Error) return {};
  const [loss, valLoss] = [run.series.train, run.series.val].map((series) => series.at(-1)?.[1]);
  return { ...(loss === undefined ? {} : { loss }), ...(valLoss === undefined ? {} : { valLoss }) };
}
