// Whole runs, as a user starts them, of each kind of model, optimizer and dtype: the same bits again, resuming, ranks, eval,
// captures; then what only one kind does. Figures: test/model/model.test.ts, test/model/fp8.test.ts, test/optimizer/muon.test.ts.
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { checkedJson, readCheckedJson } from '../../src/base/files/checked-json.ts';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { createModel, Device, isBlockMatrix, parameterTable, readRun, resolveWeights } from '../../src/index.ts';
import { benchTraining } from '../../src/lab/bench/bench-training.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { openSafetensors } from '../../src/weights/files/safetensors.ts';
import { withCode, workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { modernParts } from '../support/modern-models.ts';
import { randomQuestions } from '../support/questions.ts';
import { inRanks, onRankData, rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';
import { expectRefusal } from '../support/refusal.ts';

const place = workplace();
const gpt2 = [...tinyRanks, ...sharedSteps, '--steps 12 --val-every 0'].join(' ');
/** Without the sizes of a model, and a learning rate. */
const tuning = `${onRankData.join(' ')} --batch 2 --total-batch 192 --order sequence --steps 12 --val-every 0`;

interface Kind {
  readonly flags: string;
  /** Two ranks add the same gradients in another order; with FP8, a step later another E4M3 may be nearest. */
  readonly limit?: number;
  /** How gradients travel between two ranks that resume. */
  readonly travels?: readonly string[];
  /** Makes a step that is not finite, and what is found there. */
  readonly broken?: string;
  readonly finding?: RegExp;
}
const kinds: Record<string, Kind> = {
  gpt2: { flags: '--dtype fp32', limit: 1e-5 },
  modern: {
    flags: '--recipe modern --dtype fp32',
    travels: ['0', '1'].flatMap((zero) => ['on', 'off'].map((overlap) => `--zero ${zero} --overlap ${overlap}`)),
  },
  muon: {
    flags: '--optimizer muon --dtype fp32',
    broken: '--muon-lr 1e38 --warmup 0',
    finding: /before the step the weights \S+ hold /,
  },
  'gpt2-fp8': { flags: '--dtype fp8', limit: 0.01 },
  'modern-fp8': { flags: '--recipe modern --dtype fp8', limit: 0.01 },
};
const wroteNone = /micro-batch 0, .*: gpt2_\w+ wrote (NaN|-?Infinity) to /;
const lastCheckpoint = 'checkpoints/step-00000012';
const stepsOf = (kind: string) => `${gpt2} ${kinds[kind]!.flags}`;

/** Trains, and gives all that is printed. */
async function run(line: string): Promise<string> {
  const { stdout, stderr } = await place[line.includes('--sweep') ? 'ok' : 'okHere'](`train ${line}`);
  return stdout + stderr;
}
const configuration = (out: string) => readRun(place.path(out)).configuration;
const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
const losses = (out: string) => readRun(place.path(out)).series.train.map(([, loss]) => loss);
const furthest = (a: string, b: string) => {
  const [one, other] = [losses(a), losses(b)];
  expect([one.length, other.length]).toEqual([12, 12]);
  return Math.max(...one.map((loss, index) => Math.abs(loss - other[index]!)));
};

beforeAll(async () => {
  rankData(place);
  writeQuestions(place.path('questions.bin'), randomQuestions(20, { vocabulary: 100, longest: 8 }));
  for (const kind of Object.keys(kinds)) await run(`${stepsOf(kind)} --out ${kind}`);
});

describe.each(Object.entries(kinds))(
  '%s',
  (kind, {
    limit = 1e-4,
    travels = ['--zero 0 --overlap on', '--zero 1 --overlap on'],
    broken = '--lr 1e38 --warmup 0',
    finding = wroteNone,
  }) => {
    const steps = stepsOf(kind);

    it('learns, and ends in the same bits each time', async () => {
      expect(losses(kind).at(-1)).toBeLessThan(losses(kind)[0]!);
      await run(`${steps} --out ${kind}-again`);
      expect(figuresOf(place.path(`${kind}-again`))).toEqual(figuresOf(place.path(kind)));
    });

    it.each(['', steps])('resumes to the same bits, with "%s" given again', async (given) => {
      const out = `${kind}-resumed-${given.length}`;
      await run(`${steps} --out ${out} --stop-after 5`);
      expect(await run(`${given} --out ${out} --resume`)).not.toContain('in place of');
      expect(figuresOf(place.path(out))).toEqual(figuresOf(place.path(kind)));
      expect(files(out)).toEqual(files(kind));
    });

    /** A copy of the run on two ranks, without its last checkpoint. */
    const stoppedAtSeven = (out: string) => {
      cpSync(place.path(`${kind}-two`), place.path(out), { recursive: true });
      rmSync(place.path(out, lastCheckpoint), { recursive: true });
    };

    it('gives on two ranks what one gives', async () => {
      const line = `train ${steps} --zero 0 --overlap on --save-every 7 --out ${kind}-two`;
      const { stdout } = await inRanks(place, 2, line);
      expect(stdout).toContain('2 ranks on this machine');
      expect(furthest(kind, `${kind}-two`)).toBeLessThan(limit);
    });

    it.each(travels)('resumes on two ranks with %s to the same bits, however gradients travel', async (travel) => {
      const out = `${kind}-two${travel.replaceAll(' ', '')}`;
      stoppedAtSeven(out);
      await inRanks(place, 2, `train --out ${out} --resume ${travel}`);
      expect(files(out)).toEqual(files(`${kind}-two`));
    });

    it('continues with one rank after two, and with three after one', async () => {
      stoppedAtSeven(`${kind}-moved`);
      const said = await run(`--out ${kind}-moved --resume --gpus 1 --stop-after 9`);
      expect(said).toContain("--gpus 1 in place of the run's 2");
      await inRanks(place, 3, `train --out ${kind}-moved --resume`);
      expect(furthest(kind, `${kind}-moved`)).toBeLessThan(limit);
      expect(configuration(`${kind}-moved`)).toMatchObject({ ranks: 3 });
    });

    it('--recompute changes no bit', async () => {
      for (const recompute of ['gelu', 'block']) {
        await run(`${steps} --recompute ${recompute} --out ${kind}-${recompute}`);
        expect(losses(`${kind}-${recompute}`)).toEqual(losses(kind));
      }
    });

    it('eval gives the loss of validation while training, in its dtype alone, and scores questions', async () => {
      const out = `${kind}-measured`;
      await run(`${steps} --val-every 12 --val-tokens all --out ${out}`);
      const [, wanted] = readRun(place.path(out)).series.val.at(-1)!;
      const dtype = steps.includes('fp8') ? 'fp8' : 'fp32';
      for (const each of new Set([dtype, 'fp32'])) {
        const files = `--model ${out} --data data --hellaswag questions.bin`;
        const { stdout } = await place.okHere(`eval ${files} --batch 2 --seq 16 --device cpu --dtype ${each} --json`);
        expect(stdout.includes(String(wanted))).toBe(each === dtype);
        expect(JSON.parse(stdout)).toMatchObject({ questions: 20 });
      }
    });

    it('captures a step that is not finite, names what began it, and replays it', async () => {
      const { stderr } = withCode(1, await place.here(`train ${steps} --out ${kind}-broken ${broken}`));
      expect(stderr).toMatch(finding);
      const [, capture] = /captured: .*(captures\/step-\d+)/.exec(stderr)!;
      const replayed = await place.here(`replay ${join(`${kind}-broken`, capture!)}`);
      expect(replayed.stdout, replayed.stderr).toContain('equal to the capture, to the last bit');
    });
  },
);

describe('modern', () => {
  it('begins at equal logits', () => {
    // Logits of a head that is zero are equal, those of padding too.
    expect(losses('modern')[0]).toBeCloseTo(Math.log(128), 4);
  });

  it('fine-tuning takes its parts, in a shorter context too', async () => {
    await run(`${tuning} --warmup 5 --weight-decay 0.1 --model modern --context 8 --seq 8 --out tuned`);
    expect(configuration('tuned')).toMatchObject({ ...modernParts, context: 8, learningRate: 3e-5 });
    await run('--out tuned --resume --steps 14');
    expect(losses('tuned').length).toBe(14);
    // It goes on where the other run ended.
    expect(losses('tuned')[0]).toBeLessThan(losses('modern')[0]!);
  });

  it.each([
    [2, `train ${tuning} --model modern --out no --norm layernorm`, '--norm layernorm, but ', ['--norm', 'modern']],
    [2, `train ${tuning} --model modern --out no --softcap 30`, 'trained with --softcap 15', ['modern']],
    [2, `train ${tuning} --model modern --out no --recipe modern`, '--recipe is for new models', ['modern']],
    [1, 'export --model modern --format llmc --out no', 'modern is no GPT-2', ['llmc', 'norm rmsnorm', 'softcap 15']],
    [1, 'export --model modern --format gguf --out no', 'modern is no GPT-2', ['gguf', 'norm rmsnorm', 'softcap 15']],
  ] as const)('exit %d: %s', async (code, line, what, where) => {
    expectRefusal(await place.here(line), { code, what, where });
  });

  it('weights are rejected for a GPT-2 of the same sizes, and its weights for them, by their parts', async () => {
    using device = Device.open({ kind: 'cpu', threads: 1 });
    const [modern, plain] = [await resolveWeights(place.path('modern')), await resolveWeights(place.path('gpt2'))];
    const sizes = { B: 1, T: 8, purpose: 'inference' } as const;
    expect(() => modern.load(createModel(device, plain.model, sizes))).toThrow(
      /of another model: norm rmsnorm instead of layernorm, .*head untied instead of tied/,
    );
    expect(() => plain.load(createModel(device, modern.model, sizes))).toThrow(/ norm layernorm instead of rmsnorm/);
  });

  it('compare names every part in which runs differ', async () => {
    await run(`${stepsOf('modern')} --softcap 30 --out soft`);
    const compared = async (...runs: string[]) => (await place.here(['compare', ...runs])).stdout;
    expect(await compared('modern', 'soft')).toContain('configured with softcap 30 instead of 15');
    const parts = await compared('modern', 'gpt2');
    for (const [part, value] of Object.entries(modernParts))
      expect(parts).toMatch(new RegExp(`${part} .* instead of ${value}`));
  });

  it('a run from before there were parts resumes as a GPT-2', async () => {
    await run(`${stepsOf('gpt2')} --out older --stop-after 5`);
    const { path, manifest } = resolveCheckpoint(place.path('older'));
    const names = [...Object.keys(modernParts), 'muonWeightDecay', 'embeddingLearningRate', 'headLearningRate'];
    const without = (values: object) =>
      Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
    for (const file of [join(path, 'manifest.json'), place.path('older', 'config.json')]) {
      const { configuration, ...rest } = readCheckedJson(file).value as { configuration?: object };
      const older = configuration ? { ...rest, configuration: without(configuration) } : without(rest);
      writeFileSync(file, checkedJson(older));
    }
    const kept = Object.keys(without(manifest.configuration)).length;
    expect(kept).toBeLessThan(Object.keys(manifest.configuration).length);
    await run('--out older --resume');
    expect(files('older')).toEqual(files('gpt2'));
  });

  it('checkpoints hold the tensors of its own parameters', () => {
    using file = openSafetensors(join(resolveCheckpoint(place.path('modern')).path, 'model.safetensors'));
    expect(file.names).toEqual(expect.arrayContaining(['lm_head.weight', 'lm_head.bias', 'ln_e.weight']));
    expect(file.names.filter((name) => /wpe|ln_.*bias/.test(name))).toEqual([]);
  });
});

describe('muon', () => {
  it('saves momentum of block matrices and moments of all others, for itself alone', async () => {
    const { path, manifest } = resolveCheckpoint(place.path('muon'));
    using state = openSafetensors(join(path, 'optimizer.safetensors'));
    const config = { layers: 7, channels: 32, heads: 2, context: 16, vocabularySize: 100 };
    const wanted = parameterTable(config).flatMap((parameter) =>
      (isBlockMatrix(parameter) ? ['momentum'] : ['m', 'v']).map((prefix) => `${prefix}.${parameter.huggingFaceName}`),
    );
    expect([...state.names].sort()).toEqual(wanted.sort());
    expect(manifest.configuration).toMatchObject({ optimizer: 'muon', muonLearningRate: 0.02, muonMomentum: 0.95 });
    const { code, stderr } = await place.here('train --out muon-resumed-0 --resume --optimizer adamw');
    expect([code, stderr]).toEqual([1, expect.stringContaining('--optimizer')]);
  });

  it('names its rate, which is no lower from weights', async () => {
    const given = `${onRankData.join(' ')} --batch 2 --steps 1 --optimizer muon --model muon --out muon-tuned`;
    expect(await run(given)).toContain("Muon's learning rate is 0.02, that of a new model; --muon-lr sets another");
  });

  it('is measured by bench, op by op, in a modern model', async () => {
    const { report } = await benchTraining(
      {
        ...{ layers: 3, channels: 64, heads: 2, batch: 1, sequence: 8, device: 'cpu' },
        ...{ recipe: 'modern', newtonSchulz: 'quintic' },
      },
      { steps: 1, warmup: 0, ops: true },
    );
    expect(report.memory.planned).toHaveProperty('optimizer scratch');
    // 18 block matrices of 64 x 64 or 64 x 256, in a batch of each shape.
    const calls = { 'muon momentum': 18, 'normalize matrices': 2, 'newton schulz': 10, 'muon update': 18 };
    for (const [name, count] of Object.entries(calls)) {
      expect(report.ops).toContainEqual(expect.objectContaining({ name, calls: count }));
    }
  });
});

describe('fp8', () => {
  it.each(['gpt2', 'modern'])('%s learns as in fp32, in other bits', (model) => {
    expect(losses(`${model}-fp8`)).not.toEqual(losses(model));
    expect(furthest(`${model}-fp8`, model)).toBeLessThan(0.05);
  });

  it.each(
    ['gpt2', 'modern'].flatMap((model) => [
      [model, 'fp8', 'fp32'],
      [model, 'fp32', 'fp8'],
    ]),
  )('%s goes on from %s in %s, and says so', async (model, from, to) => {
    const out = `${model}-${from}-${to}`;
    await run(`${stepsOf(model)} --dtype ${from} --out ${out} --stop-after 5`);
    const said = await run(`--out ${out} --resume --dtype ${to} --stop-after 12`);
    expect(said).toContain(`--dtype ${to} in place of the run's ${from}`);
    expect(losses(out).length).toBe(12);
  });

  it.each(['', '--dry-run'])('channels that are no multiple of 16 are refused: %s', async (more) => {
    expectRefusal(await place.here(`train ${stepsOf('gpt2-fp8')} --channels 40 --out odd ${more}`), {
      ...{ code: 2, what: 'multiple of 16, not 40', where: ['--channels', '--dtype'] },
    });
  });

  it('a kernel for an op that the step does not have is named', async () => {
    const kernel = join(import.meta.dirname, '../../kernels/course/gelu/1-naive');
    expect(await run(`${stepsOf('gpt2-fp8')} --kernel ${kernel} --out kernel`)).toMatch(
      /a step of this model in fp8 has no gelu_forward, gelu_backward: training does not use kernels for them/,
    );
  });
});
