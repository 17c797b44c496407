// train --serve and report as commands: what they say, that viewers change nothing about the run, and that the page stays after
// the run for as long as they watch.
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StreamViewer } from '../live/streams.ts';
import { type Line, tinyModel, withCode, workplace } from '../support/cli.ts';
import { eventsOf, jsonLines } from '../support/figures.ts';
import { listening, until } from '../support/until.ts';

const place = workplace();
place.data({ vocabulary: 128 });

const train = (out: string, steps: number, ...more: string[]) => [
  ...['train', '--data', 'data', '--out', out, ...tinyModel, '--seq', '32', '--steps', String(steps)],
  ...['--val-every', '10', '--val-steps', '1', ...more],
];

/** Starts a run with a page. */
async function serve(args: Line, env: Record<string, string> = {}) {
  const { child, said, ended } = place.begin(args, env);
  const url = await until(() => /^live page: (\S+)$/m.exec(said.stdout)![1]!);
  return { child, ended, url, said: () => said.stdout, errors: () => said.stderr };
}

const weights = (out: string) => eventsOf(place.path(out), 'done').map(({ weights }) => weights);

it('a port in use: one line, before anything is trained', async () => {
  const taken = createServer();
  onTestFinished(() => void taken.close());
  const port = await listening(taken);
  const { stdout, stderr } = withCode(1, await place.here(train('refused', 10, '--serve', String(port))));
  expect(stderr).toMatch(/^cannot serve the live page: port \d+ is in use: choose another[^\n]*\n$/);
  expect(stdout).not.toContain('step');
  expect(existsSync(place.path('refused'))).toBe(false);
});

it('viewers change nothing about the run, and see all of it', async () => {
  place.ok(train('alone', 300));
  const { child, ended, url } = await serve(train('watched', 300, '--serve', '0'));
  const viewers = Array.from({ length: 20 }, () => new StreamViewer(url));
  // Some leave in the middle.
  await until(() => expect(viewers[0]!.lines.length).toBeGreaterThan(20));
  for (const viewer of viewers.slice(0, 10)) viewer.close();
  await until(() => expect(viewers[19]!.lines.at(-1)).toContain('"event":"done"'));
  child.kill('SIGINT');
  expect((await ended).code).toBe(0);
  const lines = readFileSync(place.path('watched', 'log.jsonl'), 'utf8').trimEnd().split('\n');
  for (const viewer of viewers.slice(10)) {
    await until(() => expect(viewer.isClosed).toBe(true));
    expect(viewer.lines).toEqual(lines);
    expect(viewer.told.at(-1)).toBe('closed');
    expect(viewer.data.machine).toMatchObject({ processMemory: expect.any(Number) });
  }
  expect(weights('watched')).toEqual(weights('alone'));
  expect(JSON.parse(lines[0]!).configuration).not.toHaveProperty('serve');
});

describe('after the run', () => {
  const stays = (url: string) => `the page stays at ${url} while it is watched; Ctrl-C ends it`;

  it.each(['', '--gpus 2 --total-batch 256'])('%j: the page stays until its last viewer leaves', async (more) => {
    const line = `${train(`stays${more.length}`, 30, '--serve', '0').join(' ')} ${more}`;
    const { ended, url, said, errors } = await serve(line);
    const first = new StreamViewer(url);
    await until(() => expect(said()).toContain(`${stays(url)}\n`));
    first.close();
    // A reload.
    const second = new StreamViewer(url);
    await until(() => expect(second.lines.at(-1)).toContain('"event":"done"'));
    await setTimeout(3500);
    expect(second.isClosed).toBe(false);
    second.close();
    expect([(await ended).code, errors()]).toEqual([0, '']);
  });

  it('a run of a sweep ends: another one follows', async () => {
    const { ended, url, said } = await serve([...train('swept', 300, '--serve', '0'), '--sweep', 'seed=1,2']);
    const viewer = new StreamViewer(url);
    expect((await ended).code).toBe(0);
    await until(() => expect(viewer.told.at(-1)).toBe('closed'));
    expect(said().match(/^done: 300 steps/gm)).toHaveLength(2);
    expect(said()).not.toContain('stays');
  });

  it('Ctrl-C at the moment the run ends closes the page', async () => {
    // Arrives before the command listens for the page's own Ctrl-C, and is delivered after.
    const hook = place.file(
      'interrupts.mjs',
      `const write = process.stdout.write.bind(process.stdout);
       process.stdout.write = (text, ...more) => {
         if (String(text).includes('next: ')) process.kill(process.pid, 'SIGINT');
         return write(text, ...more);
       };`,
    );
    const env = { NODE_OPTIONS: `--import ${hook}` };
    const { child, ended, url } = await serve(train('interrupted', 30, '--serve', '0'), env);
    const viewer = new StreamViewer(url);
    const code = await Promise.race([ended.then((end) => end.code), setTimeout(20_000, 'runs')]);
    child.kill('SIGKILL');
    expect(code).toBe(0);
    await until(() => expect(viewer.told.at(-1)).toBe('closed'));
  });

  it('a run that stops ends its page', async () => {
    const { child, ended, url } = await serve(train('stopped', 100_000, '--serve', '0'));
    const viewer = new StreamViewer(url);
    await until(() => expect(viewer.lines.length).toBeGreaterThan(20));
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    await until(() => expect(viewer.told.at(-1)).toBe('closed'));
  });
});

it('goes with --json, whose output is events alone, and with --resume', () => {
  const first = place.ok(train('json', 20, '--stop-after', '10', '--json', '--serve', '0'));
  expect(first.stderr).toMatch(/^live page: http:\/\/127\.0\.0\.1:\d+\/$/m);
  for (const line of jsonLines(first.stdout)) expect(line).toHaveProperty('event');
  const second = place.ok(['train', '--out', 'json', '--resume', '--serve', '0']);
  expect(second.stdout).toMatch(/^live page: /m);
  expect(second.stdout).not.toContain('--serve');
});

it('says what an address for others means', () => {
  const { stdout } = place.run(train('open', 2, '--serve', '0', '--serve-host', '0.0.0.0'));
  expect(stdout).toMatch(/^live page: http:\/\/0\.0\.0\.0:\d+\/ \(whoever can reach this address can read it\)$/m);
});
