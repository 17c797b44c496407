// Whole runs of a modern GPT, as a user starts them: resuming, ranks, fine-tuning, eval, compare, captures, exports. Its figures:
// modern.test.ts; its options: test/options/recipe.test.ts.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { checkedJson, readCheckedJson } from '../../src/base/files/checked-json.ts';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { createModel } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { readRun } from '../../src/runs/reader.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { openSafetensors } from '../../src/weights/files/safetensors.ts';
import { resolveWeights } from '../../src/weights/weights.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { modernParts } from '../support/modern-models.ts';
import { randomQuestions } from '../support/questions.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';
import { expectRefusal } from '../support/refusal.ts';

const place = workplace();
const steps = [...tinyRanks, ...sharedSteps, '--steps', '12', '--val-every', '0', '--recipe', 'modern'];
const gpt2 = steps.slice(0, -2);
/** Options that are no sizes of the model. */
const others = steps.slice(0, -2).filter((_, index) => {
  const isSize = (flag: string | undefined) => /^--(layers|channels|heads|context|lr)$/.test(flag ?? '');
  return !isSize(gpt2[index]) && !isSize(gpt2[index - 1]);
});

function run(args: readonly string[]) {
  const result = place.ok(['train', ...args]);
  return result.stderr;
}
const configuration = (out: string) => readRun(place.path(out)).configuration;
const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
const losses = (out: string) => readRun(place.path(out)).series.train.map(([, loss]) => loss);
/** Other numbers of ranks add the same gradients in another order. */
function expectSameLosses(out: string) {
  const [alone, together] = [losses('straight'), losses(out)];
  expect(together.length).toBe(12);
  expect(Math.max(...together.map((loss, index) => Math.abs(loss - alone[index]!)))).toBeLessThan(1e-4);
}

beforeAll(() => {
  rankData(place);
  run([...steps, '--out', 'straight']);
  run([...gpt2, '--out', 'gpt2']);
});

it('learns, and ends in the same bits each time', () => {
  const all = losses('straight');
  // Logits of a head that is zero are equal, those of padding too.
  expect(all[0]).toBeCloseTo(Math.log(128), 4);
  expect(all.at(-1)).toBeLessThan(all[0]!);
  run([...steps, '--out', 'again']);
  expect(figuresOf(place.path('again'))).toEqual(figuresOf(place.path('straight')));
});

it.each([[[]], [steps]])('resumes to the same bits, with %j given again', (given) => {
  const out = `resumed-${given.length}`;
  run([...steps, '--out', out, '--stop-after', '5']);
  expect(
    run([...given, '--out', out, '--resume'])
      .trim()
      .split('\n')
      .filter((line) => line.includes('in place of')),
  ).toEqual([]);
  expect(figuresOf(place.path(out))).toEqual(figuresOf(place.path('straight')));
  expect(files(out)).toEqual(files('straight'));
});

it.each([
  ['0', 'on'],
  ['0', 'off'],
  ['1', 'on'],
  ['1', 'off'],
])('gives on two ranks with --zero %s --overlap %s what one gives, and resumes to the same bits', (zero, overlap) => {
  const out = `two-${zero}-${overlap}`;
  const ranks = [...steps, '--gpus', '2', '--zero', zero, '--overlap', overlap];
  run([...ranks, '--out', out]);
  expectSameLosses(out);
  run([...ranks, '--out', `${out}-resumed`, '--stop-after', '5']);
  run(['--out', `${out}-resumed`, '--resume']);
  expect(files(`${out}-resumed`)).toEqual(files(out));
  // How gradients travel changes no bit.
  expect(files(out)).toEqual(files('two-0-on'));
});

it('continues with one rank after two, and with three after one', () => {
  run([...steps, '--out', 'moved', '--gpus', '2', '--stop-after', '4']);
  run(['--out', 'moved', '--resume', '--gpus', '1', '--stop-after', '8']);
  run(['--out', 'moved', '--resume', '--gpus', '3']);
  expectSameLosses('moved');
});

describe('with its weights', () => {
  it('fine-tuning takes its parts, in a shorter context too', () => {
    run([...others, '--model', 'straight', '--context', '8', '--seq', '8', '--out', 'tuned']);
    expect(configuration('tuned')).toMatchObject({ ...modernParts, context: 8, learningRate: 3e-5 });
    run(['--out', 'tuned', '--resume', '--steps', '14']);
    expect(losses('tuned').length).toBe(14);
    // It goes on where the other run ended.
    expect(losses('tuned')[0]).toBeLessThan(losses('straight')[0]!);
  });

  it('another part is rejected, and the recipe', () => {
    const tuned = (...more: string[]) => place.run(['train', ...others, '--model', 'straight', '--out', 'no', ...more]);
    const where = ['--norm', 'straight'];
    expectRefusal(tuned('--norm', 'layernorm'), { code: 2, what: '--norm layernorm, but ', where });
    expectRefusal(tuned('--softcap', '30'), { code: 2, what: 'trained with --softcap 15', where: ['straight'] });
    expectRefusal(tuned('--recipe', 'modern'), { code: 2, what: '--recipe is for new models', where: ['straight'] });
  });

  it.each(['hf', 'llmc', 'gguf'])('an export to %s is rejected', (format) => {
    expectRefusal(place.run(['export', '--model', 'straight', '--format', format, '--out', 'exported']), {
      ...{ code: 1, what: 'straight is no GPT-2', where: [format, 'norm rmsnorm', 'softcap 15'] },
    });
  });

  it('are rejected for a GPT-2 of the same sizes, and its weights for them, by their parts', async () => {
    using device = Device.open({ kind: 'cpu', threads: 1 });
    const [modern, plain] = [await resolveWeights(place.path('straight')), await resolveWeights(place.path('gpt2'))];
    const sizes = { B: 1, T: 8, purpose: 'inference' } as const;
    expect(() => modern.load(createModel(device, plain.model, sizes))).toThrow(
      /of another model: norm rmsnorm instead of layernorm, .*head untied instead of tied/,
    );
    expect(() => plain.load(createModel(device, modern.model, sizes))).toThrow(/ norm layernorm instead of rmsnorm/);
  });

  it('eval gives the loss of validation while training, and scores questions', () => {
    run([...steps, '--val-every', '12', '--val-tokens', 'all', '--out', 'measured']);
    const [, wanted] = readRun(place.path('measured')).series.val.at(-1)!;
    writeQuestions(place.path('questions.bin'), randomQuestions(20, { vocabulary: 100, longest: 8 }));
    const args = '--model measured --data data --batch 2 --seq 16 --device cpu --hellaswag questions.bin --json';
    const { stdout } = place.ok(['eval', ...args.split(' ')]);
    expect(stdout).toContain(String(wanted));
  });

  it('compare names every part in which runs differ', () => {
    run([...steps, '--softcap', '30', '--out', 'soft']);
    expect(place.run(['compare', 'straight', 'soft']).stdout).toContain('configured with softcap 30 instead of 15');
    const { stdout } = place.run(['compare', 'straight', 'gpt2']);
    for (const [part, value] of Object.entries(modernParts))
      expect(stdout).toMatch(new RegExp(`${part} .* instead of ${value}`));
  });
});

it('captures a step that is not finite, names what began it, and replays it', () => {
  const { code, stderr } = place.run(['train', ...steps, '--out', 'broken', '--lr', '1e38', '--warmup', '0']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/micro-batch 0, .*: gpt2_\w+ wrote (NaN|-?Infinity) to /);
  const [, capture] = /captured: .*(captures\/step-\d+)/.exec(stderr)!;
  expect(place.run(['replay', join('broken', capture!)]).stdout).toContain('equal to the capture, to the last bit');
});

it('a run from before there were parts resumes as a GPT-2', () => {
  run([...gpt2, '--out', 'older', '--stop-after', '5']);
  const { path, manifest } = resolveCheckpoint(place.path('older'));
  const names = [...Object.keys(modernParts), 'muonWeightDecay', 'embeddingLearningRate', 'headLearningRate'];
  const without = (values: object) =>
    Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
  for (const file of [join(path, 'manifest.json'), place.path('older', 'config.json')]) {
    const { configuration, ...rest } = readCheckedJson(file).value as { configuration?: object };
    writeFileSync(
      file,
      checkedJson(configuration ? { ...rest, configuration: without(configuration) } : without(rest)),
    );
  }
  expect(Object.keys(without(manifest.configuration)).length).toBeLessThan(Object.keys(manifest.configuration).length);
  run(['--out', 'older', '--resume']);
  expect(files('older')).toEqual(files('gpt2'));
});

it('checkpoints hold the tensors of its own parameters', () => {
  using file = openSafetensors(join(resolveCheckpoint(place.path('straight')).path, 'model.safetensors'));
  expect(file.names).toEqual(expect.arrayContaining(['lm_head.weight', 'lm_head.bias', 'ln_e.weight']));
  expect(file.names.filter((name) => /wpe|ln_.*bias/.test(name))).toEqual([]);
});
