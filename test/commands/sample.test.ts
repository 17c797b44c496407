// `sample` as a user runs it: its text on stdout alone, the same for the same seed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, utimesSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { text as readText } from 'node:stream/consumers';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import type { ModelConfig } from '../../src/model/config.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { castWeights } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { writeCheckpoint } from '../../src/weights/checkpoint/write.ts';
import { emptyModel, manifestFields } from '../checkpoint/trained-model.ts';
import { command, spawned, withCode, workplace } from '../support/cli.ts';
import { jsonLines } from '../support/figures.ts';

/** A small model with GPT-2's vocabulary, so that text can be made. */
const config = { layers: 1, channels: 16, heads: 2, context: 32, vocabularySize: 50257 };

type Made = Partial<ModelConfig> & { readonly seed?: number; readonly configuration?: Record<string, unknown> };

const place = workplace();
const onCpu = ['sample', '--device', 'cpu', '--threads', '1'];
const sample = (...args: string[]) => place.here([...onCpu, ...args]);
/** A run with one checkpoint. */
const makeRun = (name: string, { seed = 1, configuration = {}, ...sizes }: Made = {}) => {
  using device = Device.open({ kind: 'cpu', threads: 1 });
  const { model, optimizer } = emptyModel(device, { ...config, ...sizes });
  initializeWeights(model, seed);
  castWeights(model);
  const checkpoints = place.path('runs', name, 'checkpoints');
  writeCheckpoint({ folder: checkpoints, step: 3, model, optimizer, manifest: { ...manifestFields, configuration } });
  return checkpoints;
};

beforeAll(() => {
  utimesSync(makeRun('b-older'), 1000, 1000);
  makeRun('a-newer', { seed: 2 });
  mkdirSync(place.path('runs/c-empty/checkpoints'), { recursive: true });
  makeRun('../elsewhere/bytes', { vocabularySize: 257 });
  for (const model of ['custom', 'weights'])
    makeRun(`../elsewhere/${model}`, { vocabularySize: 257, configuration: { model, sequence: 16 } });
  const configuration = { model: 'custom', sequence: 16 };
  const rotary = { vocabularySize: 257, configuration, positions: 'rotary' } as const;
  makeRun('../elsewhere/windowed', { ...rotary, window: 16 });
  makeRun('../elsewhere/wide', { ...rotary, window: 17 });
});

it('goes on from the prompt with the newest run, and says which', async () => {
  const { stdout, stderr } = withCode(0, await sample('--prompt', 'To be', '--tokens', '40'));
  expect(stderr).toMatch(/^from runs\/a-newer\/checkpoints\/step-0{7}3\n40 tokens in [\d.]+ s, [\d,]+ tokens\/s\n$/);
  expect(stdout).toMatch(/^To be.+\n$/s);
});

it('says that it sees only the end of a prompt that is longer than the context', async () => {
  const args = ['--model', 'elsewhere/bytes', '--tokens', '2'];
  const cut = 'the prompt has 41 tokens; the model sees only the last 32\n';
  expect((await sample(...args, '--prompt', 'x'.repeat(40))).stderr.split(cut)).toHaveLength(2);
  const typed = place.run(['sample', '--device', 'cpu', '-i', ...args], {}, `${'x'.repeat(40)}\n\n`);
  expect(typed.stderr.split(cut)).toHaveLength(2);
});

it('eval and export take the newest run too, and say which', async () => {
  const newest = 'runs/a-newer/checkpoints/step-00000003';
  const data = place.data({ val: 200, vocabulary: 50257 });
  const evaluated = await place.here(['eval', '--device', 'cpu', '--threads', '1', '--tokens', '64', '--data', data]);
  expect(evaluated).toMatchObject({ code: 0, stderr: expect.stringMatching(`^${newest} on cpu`) });
  expect(await place.here(['export', '--format', 'llmc', '--out', 'newest.bin'])).toEqual({
    ...{ code: 0, stderr: '' },
    stdout: expect.stringMatching(`^wrote newest\\.bin from ${newest}: [\\d.]+ [KM]iB, fp32\n$`),
  });
});

it('is the same for the same seed and another for another', async () => {
  const args = ['--model', 'runs/b-older', '--tokens', '8', '--top-k', '40', '--top-p', '.9'];
  const first = withCode(0, await sample(...args));
  expect((await sample(...args)).stdout).toBe(first.stdout);
  expect((await sample(...args, '--no-stream')).stdout).toBe(first.stdout);
  expect((await sample(...args, '--seed', '5')).stdout).not.toBe(first.stdout);
});

it('makes several texts of several prompts, the first the same as alone', async () => {
  const args = ['--model', 'elsewhere/bytes', '--tokens', '30'];
  const alone = await sample(...args, '--prompt', 'To be');
  const twenty = [...onCpu, ...args, '--prompt', '-', '--count', '20', '--json'];
  const { stdout, stderr } = place.ok(twenty, {}, 'To be\r\n\nZoë\n');
  expect(stderr).toMatch(/\n1,\d{3} tokens in/);
  const texts = jsonLines<{ prompt: string; text: string; tokens: number; end: string }>(stdout);
  expect(texts.map(({ prompt }) => prompt)).toEqual(['To be', '', 'Zoë'].flatMap((each) => Array(20).fill(each)));
  for (const { prompt, text, tokens, end } of texts) {
    expect(text.startsWith(prompt)).toBe(true);
    expect(end).toBe(tokens === 30 ? 'length' : 'stop token');
  }
  expect(`${texts[0]!.text}\n`).toBe(alone.stdout);
  expect(new Set(texts.map(({ text }) => text)).size).toBe(60);
});

it('has no prompt where standard input is a folder', () => {
  const directory = openSync(place.folder, 'r');
  onTestFinished(() => closeSync(directory));
  const args = [...command, 'sample', '--model', 'elsewhere/bytes', '--prompt', '-'];
  const { status, stderr } = spawned(process.execPath, args, { cwd: place.folder, stdio: [directory, 'pipe', 'pipe'] });
  expect(stderr).toMatch(/\nstandard input has no prompt: .*\n$/);
  expect(status).toBe(1);
});

it('puts a line between texts, and nothing but them on stdout', async () => {
  const args = ['--model', 'elsewhere/bytes', '--prompt', 'To be', '--count', '3', '--tokens', '12'];
  const { stdout } = await sample(...args);
  expect(stdout.match(/^---$/gm)?.length).toBe(2);
  expect((await sample(...args, '--no-stream')).stdout).toBe(stdout);
});

const interactive = ['--model', 'elsewhere/bytes', '-i', '--tokens', '30'];

it('interactive: a text for each line, in turn; an empty line continues the text before it', async () => {
  const args = [...command, ...onCpu, ...interactive, '--json'];
  const child = spawn(process.execPath, args, { cwd: place.folder });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answerTo = async (line: string) => {
    child.stdin.write(`${line}\n`);
    const { value } = await answers.next();
    return JSON.parse(value as string) as { prompt: string; text: string; tokens: number; end: string };
  };
  const first = await answerTo('To be');
  expect(first).toMatchObject({ prompt: 'To be', text: expect.stringMatching(/^To be./s) });
  const further = await answerTo('');
  expect(further.prompt).toBe(first.text);
  expect(further.text.startsWith(first.text)).toBe(true);
  expect(further.tokens).toBeGreaterThan(0);
  expect((await answerTo('Zoë')).text).toMatch(/^Zoë./s);
  // The same prompt again has a text of its own.
  expect((await answerTo('To be')).text).not.toBe(first.text);
  child.stdin.end();
  const [stderr, [code]] = await Promise.all([readText(child.stderr), once(child, 'close')]);
  expect(stderr).toBe('from elsewhere/bytes/checkpoints/step-00000003\n');
  expect(code).toBe(0);
});

it('interactive: prints what `sample` prints, a line of --- before a text that continues no other', async () => {
  const { stdout } = place.ok([...onCpu, ...interactive], {}, 'To be\n\nZoë\n');
  const first = await sample('--model', 'elsewhere/bytes', '--prompt', 'To be', '--tokens', '30');
  expect(stdout.startsWith(first.stdout)).toBe(true);
  expect(stdout.split('---\n')).toEqual([expect.anything(), expect.stringMatching(/^Zoë.+\n$/s)]);
});

it("goes past the model's context, or ends there", async () => {
  const args = ['--model', 'elsewhere/bytes', '--prompt', 'To be', '--tokens', '100', '--json'];
  expect(JSON.parse((await sample(...args)).stdout)).toMatchObject({ tokens: 100, end: 'length' });
  // The end of text, 5 bytes, 26 more that fill the window, and the one behind it.
  const stopped = await sample(...args, '--when-full', 'stop');
  expect(JSON.parse(stopped.stdout)).toMatchObject({ tokens: 27, end: 'window full' });
});

it.each([
  ['custom', 11, 'texts have a window of 16 tokens: the run trained no later position (--seq)'],
  ['weights', 27, '27 tokens'],
  ['windowed', 27, '27 tokens'],
  ['wide', 11, 'texts have a window of 16 tokens: the run trained no later position (--seq)'],
])('stays in the positions that a run of --model %s trained', async (model, tokens, says) => {
  const args = ['--prompt', 'To be', '--tokens', '100', '--json', '--when-full', 'stop'];
  const { stdout, stderr } = await sample('--model', `elsewhere/${model}`, ...args);
  expect(JSON.parse(stdout)).toMatchObject({ tokens, end: 'window full' });
  expect(stderr).toContain(`\n${says}`);
});

it('names a damaged checkpoint and takes the one before', async () => {
  place.file('runs/b-older/checkpoints/step-00000009/manifest.json', '{');
  expect(withCode(0, await sample('--model', 'runs/b-older', '--tokens', '1')).stderr).toMatch(
    /^skipped a checkpoint: .*step-00000009\/manifest\.json cannot be used: .*\nfrom .*3\n1 tokens? in .*\n$/,
  );
});
