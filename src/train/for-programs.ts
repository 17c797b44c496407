// `train` and `planRun` as programs call them: errors and notices name options, not the flags of the command line.
import type { FetchOptions } from '../formats/hub.ts';
import { namingSources } from '../options/read.ts';
import type { TrainOptions } from '../options/table.ts';
import { forPrograms, worded } from '../options/wording.ts';
import { planRun as plan, type TrainingPlan } from './plan/plan.ts';
import { boundHooks, type TrainHooks, type TrainResult } from './run/hooks.ts';
import { train as run } from './train.ts';

const naming = (options: TrainOptions) => (error: unknown) => {
  throw namingSources(error, options);
};

/**
 * Trains as the options say (docs/api.md lists them).
 * @throws UsageError for invalid options; StoppedError after `signal`; the error of a function in `hooks`, after saving;
 * Gpt2Error for everything else a user can fix
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * const { out, loss } = await train({ ...small, steps: 2, valEvery: 0, out: 'runs/small' });
 */
export async function train(options: TrainOptions, hooks: TrainHooks = {}): Promise<TrainResult> {
  const { onNotice } = hooks ?? {};
  const wordedHooks =
    typeof onNotice === 'function'
      ? { ...hooks, ...boundHooks(hooks), onNotice: (text: string) => onNotice.call(hooks, forPrograms(text)) }
      : hooks;
  return worded(() => run(options, wordedHooks).catch(naming(options)));
}

/**
 * Plans a run with these options. A model of the Hugging Face hub is downloaded for it.
 * @throws as `openRun` before it allocates
 * @example
 * const plan = await planRun({ model: 'd6', device: 'cpu' }, console.log);
 * console.log(plan.parameters, plan.refusal ?? 'fits');
 */
export async function planRun(
  given: TrainOptions,
  notice: (text: string) => void = () => {},
  onProgress?: FetchOptions['onProgress'],
): Promise<TrainingPlan> {
  const found = await worded(() => plan(given, (text) => notice(forPrograms(text)), onProgress).catch(naming(given)));
  return { ...found, refusal: found.refusal && forPrograms(found.refusal) };
}
