// Models of the Hugging Face hub on the command line: sampled, evaluated, fine-tuned, exported and read again. Where they come from
// and how they are refused is in test/formats/hub.test.ts.
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { beforeEach, expect, it, vi } from 'vitest';
import { logits } from '../../src/inference/evaluate/logits.ts';
import { generateText } from '../../src/inference/sample/generate-text.ts';
import { createModel } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { readRun } from '../../src/runs/reader.ts';
import { train } from '../../src/train/train.ts';
import { exportModel } from '../../src/weights/export.ts';
import { resolveWeights } from '../../src/weights/weights.ts';
import { commit, files, filesIn, hub, hubOfEach, made, repository } from '../formats/hub-server.ts';
import { withCode } from '../support/cli.ts';
import { until } from '../support/until.ts';

const place = hubOfEach();
beforeEach(() => void place.data({ vocabulary: 50257 }));

const given = 'train --data data --device cpu --batch 2 --seq 16 --val-every 0 --sample-every 0'.split(' ');
const start = [...given, '--model', repository];
const folder = () => place.path('cache', 'gpt2.ts', 'models', repository, commit);
const sample = (model: string) =>
  place.here(`sample --model ${model} --prompt ROMEO: --tokens 20 --temperature 0 --device cpu`);

/** The logits of a model after some tokens, and its likeliest text. */
async function outputs(name: string): Promise<{ logits: Float32Array; text: string }> {
  using device = Device.open({ kind: 'cpu' });
  const weights = await resolveWeights(name);
  const model = createModel(device, weights.model, { B: 1, T: 16, purpose: 'inference' });
  weights.load(model);
  const all = await logits(model, { inputs: Int32Array.from({ length: 16 }, (_, index) => (index * 37) % 100) });
  return {
    logits: all.subarray(-weights.model.vocabularySize),
    text: await generateText(model, 'ROMEO:', { tokens: 20, temperature: 0 }),
  };
}

const furthest = (a: Float32Array, b: Float32Array): number =>
  a.reduce((most, value, index) => Math.max(most, Math.abs(value - b[index]!)), 0);

it('sample says what it downloads; a path of the same name, or a folder of the owner, wins', async () => {
  const first = withCode(0, await sample(repository));
  expect(first.stderr).toContain(`downloading ${repository}@${commit} to ${folder()}\nfrom ${folder()}\n`);
  expect(first.stdout).toBe((await sample(made.path('local'))).stdout);
  hub.requests.length = 0;
  mkdirSync(place.path('someone'));
  expect((await sample(repository)).stderr).toMatch(new RegExp(`^${repository} does not exist; name a run,`));
  renameSync(made.path('local'), place.path(repository));
  const local = await sample(repository);
  renameSync(place.path(repository), made.path('local'));
  expect(local.stderr).toContain(`from ${repository}\n`);
  expect(local.stdout).toBe(first.stdout);
  expect(hub.requests).toEqual([]);
  expect((await sample(`${repository}@main`)).stdout).toBe(first.stdout);
});

it('eval and export take it too', async () => {
  const evaluated = async (model: string) => {
    const given = ['--data', 'data', '--seq', '16', '--batch', '2', '--device', 'cpu', '--json'];
    return JSON.parse((await place.here(['eval', '--model', model, ...given])).stdout).loss;
  };
  expect(await evaluated(repository)).toBe(await evaluated(made.path('local')));
  const exported = async (model: string, out: string) => {
    const { stdout } = await place.okHere(['export', '--model', model, '--format', 'gguf', '--out', out]);
    return { stdout, bytes: readFileSync(place.path(out)) };
  };
  const { stdout, bytes } = await exported(repository, 'hub.gguf');
  expect(stdout).toMatch(/: [\d.]+ [KM]iB, fp32\n$/);
  expect(stdout.startsWith(`wrote hub.gguf from ${folder()}: `)).toBe(true);
  expect(bytes.equals((await exported(made.path('local'), 'local.gguf')).bytes)).toBe(true);
});

it('is fine-tuned, exported and read again: the same logits and text', async () => {
  const out = place.path('tuned');
  const given = { data: place.path('data'), device: 'cpu', batch: 2, sequence: 16, valEvery: 0, sampleEvery: 0 };
  const onNotice = vi.fn();
  const { steps } = await train({ ...given, model: repository, learningRate: 1e-3, steps: 3, out }, { onNotice });
  expect(steps).toBe(3);
  expect(onNotice).toBeCalledWith(`starting from ${folder()}`);
  expect(readRun(out).configuration.model).toBe(`${repository}@${commit}`);
  const tuned = await outputs(out);
  expect(furthest(tuned.logits, (await outputs(repository)).logits)).toBeGreaterThan(1e-3);

  const exported = async (model: string, format: 'hf' | 'gguf', to: string, dtype?: 'bf16') => {
    await exportModel({ model, format, out: place.path(to), dtype });
    return place.path(to);
  };
  const hf = await exported(out, 'hf', 'hf');
  expect(await outputs(hf)).toEqual(tuned);
  // bf16 keeps 8 bits of each weight, of logits of up to 4.
  const rounded = await outputs(await exported(out, 'hf', 'hf-bf16', 'bf16'));
  expect(furthest(rounded.logits, tuned.logits)).toBeLessThan(0.05);
  const [direct, again] = [await exported(out, 'gguf', 'run.gguf'), await exported(hf, 'gguf', 'hf.gguf')];
  expect(readFileSync(again).equals(readFileSync(direct))).toBe(true);
  // The folder is what the hub would serve of it.
  hub.commit('someone/tuned', filesIn(hf));
  expect(await outputs('someone/tuned')).toEqual(tuned);
});

it('a run goes on without the hub, by the name it was started with, and keeps the commit', async () => {
  const four = [...start, '--steps', '4', '--out', 'tuned'];
  const first = await place.okHere([...four, '--stop-after', '2']);
  expect(first.stdout).toContain(`downloading ${repository}@${commit} to `);
  hub.commit(repository, files);
  await hub.close();
  expect((await place.okHere([...four, '--resume', 'auto'])).stdout).not.toContain(hub.url);
  const { configuration, series } = readRun(place.path('tuned'));
  expect(configuration.model).toBe(`${repository}@${commit}`);
  expect(series.train).toHaveLength(4);
  const other = await place.here([...four, '--resume', '--model', `${repository}@${'0'.repeat(40)}`]);
  expect(other.stderr).toContain(`it was trained with ${repository}@${commit}`);
  // Its configuration starts the same run again, without the network.
  await place.okHere(['train', '--config', 'tuned/config.json', '--out', 'again']);
  expect(readRun(place.path('again')).series.train).toEqual(series.train.map(([step]) => [step, expect.any(Number)]));
});

it('all runs of a sweep start from one commit', async () => {
  const sweep = place.finished([...start, '--steps', '2', '--sweep', 'seed=1,2', '--out', 'sweep']);
  await until(() => expect(existsSync(place.path('sweep', 'seed=1', 'log.jsonl'))).toBe(true));
  hub.commit(repository, files);
  withCode(0, await sweep);
  for (const run of ['seed=1', 'seed=2']) {
    expect(readRun(place.path('sweep', run)).configuration.model).toBe(`${repository}@${commit}`);
  }
});

it('two ranks download once', async () => {
  const more = ['--threads', '1', '--steps', '2', '--gpus', '2', '--out', 'together'];
  const { stdout } = withCode(0, await place.finished([...start, ...more]));
  expect(hub.downloads).toHaveLength(1);
  // By rank 0, which shows the progress.
  expect(stdout).toContain(`downloading ${repository}@${commit}`);
});
