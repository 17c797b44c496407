// Runs of a tiny model from the command line: the log, resume bit for bit, signals, equal batches in any split.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import { command, spawned, tinyModel, workplace } from '../support/cli.ts';
import { figuresOf, jsonLines } from '../support/figures.ts';

const place = workplace();
const data = place.data({ train: 9000 });

const train = (out: string, ...args: string[]) => [
  ...['train', '--data', data, '--out', out, ...tinyModel, '--sample-every', '0', ...args],
];

/** In this process: what only a started program shows has tests of its own below. */
const run = (args: string[]) => place.okHere(args);
const figures = (out: string) => figuresOf(place.path(out));
const stepsOf = (out: string) => readRun(place.path(out)).series.train.length;
const checkpoints = (out: string) => readdirSync(place.path(out, 'checkpoints'));
/** One checkpoint, of the last step in the log. */
const expectSaved = (out: string) =>
  expect(checkpoints(out)).toEqual([`step-${String(stepsOf(out)).padStart(8, '0')}`]);

const schedule =
  '--steps 30 --lr 1e-3 --warmup 5 --final-lr-frac 0.1 --weight-decay 0.1 --val-every 10 --val-steps 3'.split(' ');

it('logs every step in order, and the same on stdout with --json', async () => {
  const flags = '--steps 4 --val-every 2 --val-steps 2 --save-every 2 --json'.split(' ');
  const { stdout } = await run(train('logged', ...flags));
  expect(readFileSync(place.path('logged', 'log.jsonl'), 'utf8')).toBe(stdout);
  for (const flag of ['--version', '-V']) {
    expect((await run([flag])).stdout).toBe(`${(JSON.parse(stdout.split('\n')[0]!) as { program: string }).program}\n`);
  }
  const kinds = jsonLines(stdout).map(({ event, step = '' }) => `${event} ${step}`.trimEnd());
  const [checkpoint, rest] = [kinds.indexOf('checkpoint 2'), kinds.filter((kind) => kind !== 'checkpoint 2')];
  expect(rest).toEqual([
    ...['run', 'val 0', 'train 0', 'train 1', 'val 2', 'train 2', 'train 3', 'val 4', 'checkpoint 4', 'done'],
  ]);
  // Written beside training: logged when it is on the disk.
  expect(checkpoint).toBeGreaterThan(kinds.indexOf('val 2'));
  expect(checkpoint).toBeLessThan(kinds.indexOf('checkpoint 4'));
  const configuration = JSON.parse(readFileSync(place.path('logged', 'config.json'), 'utf8')) as object;
  expect(configuration).toMatchObject({ batch: 4, sequence: 64, totalBatch: 256, steps: 4, layers: 1, seed: 42 });
});

it('--log-every thins what is printed, not the log: every third step and the last of a start', async () => {
  const printed = (stdout: string) => [...stdout.matchAll(/^step (\d)\/9 +loss/gm)].map(([, step]) => Number(step));
  const flags = ['--steps', '9', '--log-every', '3', '--val-every', '0'];
  expect(printed((await run(train('thinned', ...flags, '--stop-after', '5'))).stdout)).toEqual([0, 3, 4]);
  const idle = await run(['train', '--out', 'thinned', '--resume', '--stop-after', '5']);
  expect(idle.stdout).toMatch(/^nothing was left to do after 5 of 9 steps, as --stop-after says; /m);
  expect((await run(['runs', 'thinned'])).stdout).toMatch(/^thinned .* 5\/9 +\d\S* +- +\d/m);
  // A resumed run keeps to it.
  expect(printed((await run(['train', '--out', 'thinned', '--resume'])).stdout)).toEqual([6, 8]);
  expect(readRun(place.path('thinned')).series.train.map(([step]) => step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

it('a resumed run equals one that was never stopped, bit for bit', async () => {
  await run(train('straight', ...schedule));
  await run(train('stopped', ...schedule, '--stop-after', '15'));
  expect(checkpoints('stopped')).toEqual(['step-00000015']);
  // After the checkpoint a crash leaves steps that will be done again, and half a line.
  const torn = '{"event":"train","step":15,"loss":1,"norm":1,"lr":1,"tokensPerSecond":1,"ms":1}\n{"event":"tra';
  appendFileSync(place.path('stopped', 'log.jsonl'), torn);
  await run(['train', '--out', 'stopped', '--resume']);
  expect(figures('stopped')).toEqual(figures('straight'));
  expect(figures('straight').length).toBe(30 + 4 + 1);
  const files = ['config.json', 'log.jsonl'].map((name) => readFileSync(place.path('stopped', name), 'utf8'));
  const again = await run(['train', '--out', 'stopped', '--resume', '--lr', '0.5']);
  expect(again.stdout).toMatch(/^the run in stopped is finished: 30 of 30 steps are done; /);
  const refused = await place.here(['train', '--out', 'stopped', '--resume', '--steps', '40', '--seed', '9']);
  expect([refused.stdout, refused.stderr]).toEqual(['', expect.stringMatching(/^cannot resume stopped with --seed 9/)]);
  const less = await place.here(['train', '--out', 'stopped', '--resume', '--steps', '20']);
  expect([less.code, less.stderr]).toEqual([1, 'stopped has done 30 steps; to continue, give --steps 31 or more\n']);
  expect(['config.json', 'log.jsonl'].map((name) => readFileSync(place.path('stopped', name), 'utf8'))).toEqual(files);
});

it('a damaged line of the log costs its event alone, and is named by all commands alike', async () => {
  await run(train('torn', '--steps', '4', '--val-every', '4', '--val-steps', '2', '--stop-after', '2'));
  const log = place.path('torn', 'log.jsonl');
  writeFileSync(log, readFileSync(log, 'utf8').replace('"step":0,"loss":5', '"step":0,"loss":6'));
  const told = /^torn\/log\.jsonl line 2 is damaged: .*; remove the line, or name another run$/m;
  const { stdout } = await run(['train', '--out', 'torn', '--resume']);
  expect(stdout).toMatch(told);
  const before = readFileSync(log, 'utf8');
  expect((await run(['train', '--out', 'torn', '--resume'])).stdout).toMatch(/is finished: .*\n.* line 2 is damaged/);
  expect(readFileSync(log, 'utf8')).toBe(before);
  expect((await place.here(['compare', 'torn'])).stderr).toMatch(told);
});

it('a run that is being written is left alone', async () => {
  const first = place.begin(['train', '--data', 'data', ...tinyModel, '--steps', '100000', '--out', 'busy', '--json']);
  while (!existsSync(place.path('busy', 'log.jsonl'))) await setTimeout(20);
  for (const how of [['--resume'], ['--overwrite', '--data', 'data', ...tinyModel]]) {
    const { code, stdout, stderr } = place.run(['train', '--out', 'busy', ...how]);
    expect([code, stdout, stderr]).toEqual([
      1,
      expect.stringMatching(/^(validation: .*\n)*$/),
      expect.stringMatching(/^another process is writing busy; wait until it ends, or name another --out\n$/),
    ]);
  }
  first.child.kill('SIGTERM');
  expect(await first.ended).toMatchObject({ code: 143 });
  const steps = stepsOf('busy') + 1;
  await run(['train', '--out', 'busy', '--resume', '--steps', String(steps)]);
});

it('a run that has saved nothing yet is resumed from its start, with its own options', async () => {
  const command = train('killed', ...schedule);
  await run(command);
  const wanted = figures('killed');
  const log = place.path('killed', 'log.jsonl');
  for (const resume of ['train --out killed --resume'.split(' '), [...command, '--resume', 'auto']]) {
    rmSync(place.path('killed', 'checkpoints'), { recursive: true });
    const lines = readFileSync(log, 'utf8').split('\n');
    writeFileSync(log, lines.filter((line) => !line.includes('"event":"checkpoint"')).join('\n'));
    const { stdout } = await run(resume);
    expect(stdout).toContain('killed has no complete checkpoint: starting at step 0');
    expect(figures('killed')).toEqual(wanted);
  }
  expect(readRun(place.path('killed')).configuration.saveEvery).toBe('10m');
});

it('takes no samples with a vocabulary that has no end of text, and says so', async () => {
  const data = place.data({ vocabulary: 100, name: 'small' });
  const sizes = '--seq 32 --steps 3 --sample-every 1 --val-every 0';
  const { stdout } = await run(['train', '--data', data, ...tinyModel, ...sizes.split(' '), '--out', 'unsampled']);
  expect(stdout).toMatch(/^samples are off: no tokenizer has a vocabulary of 100 tokens$/m);
  expect(stdout).toMatch(/^done: 3 steps/m);
});

it('prints losses, folder and next commands at the end, and logs the command line', async () => {
  const args = train('ended', '--steps', '4', '--val-every', '2', '--val-steps', '2');
  const { stdout } = place.run(args);
  const { events, series } = readRun(place.path('ended'));
  const val = [...series.val];
  const [step, best] = val.toSorted(([, a], [, b]) => a - b)[0]!;
  expect(stdout.slice(stdout.indexOf('done: ')).split('\n').slice(1)).toEqual([
    `val loss ${val.at(-1)![1].toFixed(4)} at step 4, best ${best.toFixed(4)} at step ${step}`,
    'run: ended',
    expect.stringMatching(/^next: (npx gpt2|npm run) sample (-- )?--model ended --prompt .+$/),
    expect.stringMatching(/^ {6}(npx gpt2|npm run) compare ended$/),
    '',
  ]);
  const [start] = events;
  expect(start).toMatchObject({ event: 'run', command: args });
  const isClone = existsSync(new URL('../../.git', import.meta.url));
  expect((start as { commit?: string }).commit ?? 'none').toMatch(isClone ? /^[0-9a-f]{40}(-dirty)?$/ : /^none$/);
});

it('goes on by another code path within rounding, and says so', async () => {
  await run(train('paths', '--steps', '20', '--val-every', '0'));
  await run(train('moved', '--steps', '20', '--val-every', '0', '--stop-after', '10'));
  const resume = ['train', '--out', place.path('moved'), '--resume', '--stop-after', '20'];
  const { stdout } = place.ok(resume, { GPT2_KERNELS: 'portable' });
  expect(stdout).toMatch(/^computed by \w+ so far, by portable from here on: within rounding, not bit for bit$/m);
  const losses = (out: string) => readRun(place.path(out)).series.train.map(([, loss]) => loss);
  const [straight, moved] = [losses('paths'), losses('moved')];
  expect(moved.slice(0, 10)).toEqual(straight.slice(0, 10));
  for (const [step, loss] of moved.entries())
    expect(Math.abs(loss - straight[step]!), `step ${step}`).toBeLessThan(1e-4);
});

it('--overwrite starts anew', async () => {
  await run(train('young', ...schedule, '--stop-after', '3'));
  await run(train('young', ...schedule, '--stop-after', '2', '--overwrite'));
  expect(checkpoints('young')).toEqual(['step-00000002']);
});

it('sees the same tokens in any split of the same total batch', async () => {
  const losses: number[][] = [];
  for (const batch of [8, 4, 2]) {
    const out = `split${batch}`;
    const split = `--steps 8 --order file --batch ${batch} --seq 32 --total-batch 256 --val-every 0`;
    await run(train(out, ...split.split(' ')));
    losses.push(readRun(place.path(out)).series.train.map(([, loss]) => loss));
  }
  for (const [step, loss] of losses.slice(1).flatMap((split) => [...split.entries()])) {
    expect(Math.abs(loss - losses[0]![step]!), `step ${step}`).toBeLessThan(5e-6);
  }
});

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
  ['SIGQUIT', 131],
  // Batch systems announce the end with these; Node's own answer to the first is a debugger that listens on a port.
  ['SIGUSR1', 138],
  ['SIGUSR2', 140],
  ['SIGALRM', 142],
  ['SIGXCPU', 152],
] as const)('%s finishes the step, saves and exits with %i; the run can be continued', async (signal, code) => {
  const out = `stopped-by-${signal}`;
  const { child, said, ended } = place.begin(train(out, '--steps', '100000', '--val-every', '0'));
  while (!/step +5\//.test(said.stdout)) await setTimeout(20);
  // As a terminal does: to the whole process group, and npm passes it on a second time.
  process.kill(-child.pid!, signal);
  await setTimeout(5);
  process.kill(-child.pid!, signal);
  expect(await ended, said.stderr).toMatchObject({ code });
  expect(said.stderr).toMatch(/stopped after \d+ of 100000 steps and saved; continue with --out .* --resume/);
  expectSaved(out);
  const steps = stepsOf(out);
  await run(['train', '--out', out, '--resume', '--stop-after', String(steps + 1)]);
  expect(stepsOf(out)).toBe(steps + 1);
});

it('SIGUSR1 ends a command that is no run, and opens no debugger', async () => {
  await run(train('shown', '--steps', '1'));
  const { child, said, ended } = place.begin('report shown --serve --port 0');
  const all = () => said.stdout + said.stderr;
  while (!all().includes('http://') && child.exitCode === null) await setTimeout(20);
  child.kill('SIGUSR1');
  while (child.exitCode === null && child.signalCode === null && !/debugger|inspector/i.test(all()))
    await setTimeout(20);
  child.kill('SIGKILL');
  expect(await ended, all()).toEqual({ code: null, signal: 'SIGUSR1' });
});

it('whose reader leaves stops saved, though nobody hears of it, and exits with 141', async () => {
  const { child, ended } = place.begin(train('unread', '--steps', '100000', '--val-every', '0'));
  await once(child.stdout, 'data');
  child.stdout.destroy();
  child.stderr.destroy();
  expect(await ended).toEqual({ code: 141, signal: null });
  expectSaved('unread');
});

it.skipIf(!existsSync('/dev/full'))('stops saved where its output has no room (needs /dev/full)', () => {
  const words = [process.execPath, ...command, ...train('full', '--steps', '100000')];
  const { status, stderr } = spawned('sh', ['-c', '"$@" >/dev/full', 'sh', ...words], { cwd: place.folder });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^cannot write to standard output: ENOSPC.*\nstopped after \d+ of 100000 steps and saved; /);
  expectSaved('full');
});

const hasScript = spawned('script', ['--version']).stdout?.includes('util-linux') === true;

it.skipIf(!hasScript)(
  'whose terminal is closed stops saved and exits with 129 (needs script of util-linux)',
  async () => {
    const words = [process.execPath, ...command, ...train('hung-up', '--steps', '100000', '--val-every', '0')];
    // The shell lives to tell, and so no SIGHUP comes from it: the run hears of the end by what it cannot write.
    const told = place.path('hung-up.code');
    const line = `trap '' HUP; ${words.map((word) => `'${word}'`).join(' ')}; echo $? >'${told}'`;
    const terminal = spawn('script', ['-qfc', line, '/dev/null'], {
      cwd: place.folder,
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, SHELL: '/bin/sh' },
    });
    let text = '';
    terminal.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    while (!/step +5\//.test(text)) await setTimeout(20);
    terminal.kill('SIGKILL');
    while (!existsSync(told) || readFileSync(told, 'utf8') === '') await setTimeout(20);
    expect(readFileSync(told, 'utf8')).toBe('129\n');
    expectSaved('hung-up');
  },
);

it('--overfit-batch learns one batch by heart', async () => {
  await run(train('overfit', '--steps', '40', '--lr', '1e-2', '--overfit-batch', '--val-every', '0'));
  const { train: losses } = readRun(place.path('overfit')).series;
  expect(losses.at(-1)![1]).toBeLessThan(losses[0]![1] * 0.5);
});
