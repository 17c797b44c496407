// Whole runs with --dtype fp8, as a user starts them: resuming, ranks, other dtypes, eval, samples, captures, refusals. Its figures:
// test/model/fp8.test.ts.
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';
import { expectRefusal } from '../support/refusal.ts';

const place = workplace();
const gpt2 = [...tinyRanks, ...sharedSteps, '--steps', '12', '--val-every', '0'];

function run(args: readonly string[]) {
  const result = place.ok(['train', ...args]);
  return result.stdout + result.stderr;
}
const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
const losses = (out: string) => readRun(place.path(out)).series.train.map(([, loss]) => loss);
const furthest = (a: string, b: string) => {
  const other = losses(b);
  return Math.max(...losses(a).map((loss, index) => Math.abs(loss - other[index]!)));
};

beforeAll(() => {
  rankData(place);
});

describe.each([
  ['gpt2', gpt2],
  ['modern', [...gpt2, '--recipe', 'modern']],
])('%s', (model, options) => {
  const steps = [...options, '--dtype', 'fp8'];
  const named = (name: string) => `${model}-${name}`;
  beforeAll(() => {
    run([...steps, '--out', named('straight')]);
  });

  it('learns as in fp32, in other bits', () => {
    run([...options, '--out', named('fp32')]);
    const all = losses(named('straight'));
    expect(all.at(-1)).toBeLessThan(all[0]!);
    expect(all).not.toEqual(losses(named('fp32')));
    expect(furthest(named('straight'), named('fp32'))).toBeLessThan(0.05);
  });

  it('resumes to the same bits', () => {
    run([...steps, '--out', named('resumed'), '--stop-after', '5']);
    expect(run(['--out', named('resumed'), '--resume'])).not.toContain('in place of');
    expect(figuresOf(place.path(named('resumed')))).toEqual(figuresOf(place.path(named('straight'))));
    expect(files(named('resumed'))).toEqual(files(named('straight')));
  });

  it.each(['0', '1'])('gives on two ranks with --zero %s what one gives, and resumes to the same bits', (zero) => {
    const out = named(`two-${zero}`);
    const ranks = [...steps, '--gpus', '2', '--zero', zero];
    run([...ranks, '--out', out]);
    // Other numbers of ranks add the same gradients in another order, and a step later another E4M3 may be nearest.
    expect(furthest(named('straight'), out)).toBeLessThan(0.01);
    run([...ranks, '--out', `${out}-resumed`, '--stop-after', '5']);
    run(['--out', `${out}-resumed`, '--resume']);
    expect(files(`${out}-resumed`)).toEqual(files(out));
    expect(files(out)).toEqual(files(named('two-0')));
  });

  it.each([
    ['fp8', 'fp32'],
    ['fp32', 'fp8'],
  ])('goes on from %s in %s, and says so', (from, to) => {
    const out = named(`${from}-${to}`);
    run([...options, '--dtype', from, '--out', out, '--stop-after', '5']);
    const said = run(['--out', out, '--resume', '--dtype', to, '--stop-after', '12']);
    expect(said).toContain(`--dtype ${to} in place of the run's ${from}`);
    expect(losses(out).length).toBe(12);
  });

  it('--recompute changes no bit', () => {
    for (const recompute of ['gelu', 'block']) {
      const out = named(recompute);
      run([...steps, '--recompute', recompute, '--out', out]);
      expect(losses(out)).toEqual(losses(named('straight')));
    }
  });

  it('eval gives the loss of validation while training', () => {
    const out = named('measured');
    run([...steps, '--val-every', '12', '--val-tokens', 'all', '--out', out]);
    const [, wanted] = readRun(place.path(out)).series.val.at(-1)!;
    const evaluated = (dtype: string) => {
      const args = `--data data --batch 2 --seq 16 --device cpu --dtype ${dtype} --json`.split(' ');
      const { stdout } = place.ok(['eval', '--model', out, ...args]);
      return stdout;
    };
    expect(evaluated('fp8')).toContain(String(wanted));
    expect(evaluated('fp32')).not.toContain(String(wanted));
  });

  it('captures a step that is not finite, names what began it, and replays it', () => {
    const out = named('broken');
    const { code, stderr } = place.run(['train', ...steps, '--out', out, '--lr', '1e38', '--warmup', '0']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/micro-batch 0, .*: gpt2_\w+ wrote (NaN|-?Infinity) to /);
    const [, capture] = /captured: .*(captures\/step-\d+)/.exec(stderr)!;
    const replayed = place.run(['replay', join(out, capture!)]);
    expect(replayed.stdout, replayed.stderr).toContain('equal to the capture, to the last bit');
  });
});

it('channels that are no multiple of 16 are refused, also by --dry-run', () => {
  const odd = gpt2.map((value, index) => (gpt2[index - 1] === '--channels' ? '40' : value));
  for (const more of [[], ['--dry-run']]) {
    expectRefusal(place.run(['train', ...odd, '--dtype', 'fp8', '--out', 'odd', ...more]), {
      ...{ code: 2, what: 'multiple of 16, not 40', where: ['--channels', '--dtype'] },
    });
  }
});

it('a kernel for an op that the step does not have is named', () => {
  const kernel = join(import.meta.dirname, '../../kernels/course/gelu/1-naive');
  const said = run([...gpt2, '--dtype', 'fp8', '--kernel', kernel, '--out', 'kernel']);
  expect(said).toMatch(
    /a step of this model in fp8 has no gelu_forward, gelu_backward: training does not use kernels for them/,
  );
});
