// `train --sweep` refuses wrong values before it starts anything.
import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Gpt2Error, UsageError } from '../../src/base/errors.ts';
import { sweep } from '../../src/commands/sweep.ts';
import { resolveSources } from '../../src/options/sources.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';

const place = workplace('each');

const start = (specs: readonly string[], options: TrainOptions = {}): Promise<Gpt2Error> =>
  sweep(resolveSources({ device: 'cpu', steps: 10, out: place.path('sweep'), ...options }), specs, () => {
    throw new Gpt2Error('a run was started');
  }).then(
    () => expect.unreachable(),
    (error: Gpt2Error) => error,
  );

/** Exit code, specifications, the message, and options besides. */
it.each<[code: 1 | 2, specs: string[], message: string, options?: TrainOptions]>([
  [2, ['lr'], '--sweep takes NAME=VALUE,VALUE with an option of train that config.json records, not "lr"'],
  [2, ['learning_rate=1e-4,x'], '--lr takes a number of at least 0, not "x"'],
  [2, ['rate=1'], 'not "rate=1"; train --help lists the options'],
  [2, ['lrr=1e-4'], 'not "lrr=1e-4"; did you mean lr?'],
  [2, ['finalLearningRateFractoin=1'], 'did you mean final-lr-frac?'],
  [2, ['out=a,b'], 'not "out=a,b"'],
  [2, ['lr=1e-4,x'], '--lr takes a number of at least 0, not "x"'],
  [2, ['learningRate=1e-4,'], '--lr takes a number of at least 0, not ""'],
  [2, ['lr=1,1.0'], '--sweep lr=1,1.0 has a value of lr twice'],
  [2, ['overfit-batch=1'], '--overfit-batch takes no value, not "1"'],
  [2, ['seed=1', 'seed=2'], '--sweep names seed twice'],
  [2, ['seed=1', 'steps=20,30'], '--sweep steps and --steps exclude each other: give one of them'],
  [2, ['lr=1e-4', 'warmup=5,20'], '--warmup 20 is over --steps 10'],
  // Its --lr is for Muon's run, so with AdamW it asks for another.
  [2, ['optimizer=muon,adamw'], '--recipe modern with --optimizer adamw needs --lr', { recipe: 'modern' }],
  [1, ['data=data,dta'], 'dta does not exist', { data: undefined }],
  [2, ['model=d6,none'], 'none does not exist'],
  [1, ['hellaswag=none.bin'], 'there are no questions in none.bin', { hellaswagEvery: 5 }],
  [1, ['dtype=fp32,tf32'], 'tf32'],
  [2, ['heads=2,3'], 'channels 32 are not divisible by heads 3', { model: 'custom', layers: 1, channels: 32 }],
])('%i %j: %s', async (code, specs, message, options) => {
  const data = place.data();
  const named = specs.map((spec) => spec.replace('=data,', `=${data},`));
  const error = await start(named, { data, ...options });
  expect(error).toBeInstanceOf(code === 2 ? UsageError : Gpt2Error);
  expect(error.message).toContain(message);
  expect(existsSync(place.path('sweep'))).toBe(false);
});

it('a swept schedule has its own end', async () => {
  const falls: TrainOptions = { preset: 'shakespeare-laptop', warmup: 0 };
  const error = await start(['schedule=linear,constant'], { data: place.data(), ...falls });
  expect(error.message).toBe('a run was started');
});

it('a finished run of other options is not taken for one of the sweep', async () => {
  const run = place.path('sweep', 'seed=42');
  writeLog(run, [runEvent(), { event: 'done', steps: 400, seconds: 1, weights: 'x' }]);
  const error = await start(['seed=42'], { weightDecay: 0.2 });
  expect(error).toBeInstanceOf(Gpt2Error);
  expect(error.message).toBe(
    `${run} was trained with --weight-decay 0.1, not 0.2; name another --out, or give --overwrite`,
  );
});

it('a folder that holds a run is refused, and --resume with --overwrite', async () => {
  const run = place.path('sweep');
  writeLog(run, [runEvent(), trainEvent(0, 4)]);
  expect(String(await start(['seed=1,2']))).toContain(`${run} already holds a run: name another folder`);
  expect(String(await start(['seed=1'], { resume: true, overwrite: true }))).toContain('exclude each other');
});
