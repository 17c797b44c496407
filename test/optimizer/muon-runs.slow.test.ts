// Whole runs with Muon, as a user starts them: checkpoints, resuming, ranks, sweeps, captures, compare, bench.
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { parameterTable } from '../../src/model/parameters.ts';
import { isBlockMatrix } from '../../src/optimizer/muon.ts';
import { readRun, type Series } from '../../src/runs/reader.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { openSafetensors } from '../../src/weights/files/safetensors.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';

const place = workplace();
beforeAll(() => {
  rankData(place);
  run([...steps, '--out', 'straight']);
});

const steps = [...tinyRanks, ...sharedSteps, '--steps', '12', '--val-every', '0', '--optimizer', 'muon'];
function run(args: readonly string[]) {
  const result = place.ok(['train', ...args]);
  return result.stdout;
}
const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
const train = (out: string): Series => readRun(place.path(out)).series.train;
/** Other numbers of ranks add the same gradients in another order. */
function expectSameLosses(out: string) {
  const [alone, together] = [train('straight'), train(out)];
  expect(together.length).toBe(12);
  const differences = together.map(([, loss], index) => Math.abs(loss - alone[index]![1]));
  expect(Math.max(...differences)).toBeLessThan(1e-4);
}

it('saves momentum of block matrices and moments of all others, and resumes to the same bits', () => {
  const { path, manifest } = resolveCheckpoint(place.path('straight'));
  using state = openSafetensors(join(path, 'optimizer.safetensors'));
  const config = { layers: 7, channels: 32, heads: 2, context: 16, vocabularySize: 100 };
  const prefixes = Object.fromEntries(
    parameterTable(config).map((parameter) => {
      const { huggingFaceName: name } = parameter;
      const of = ['m', 'v', 'momentum'].filter((prefix) => state.names.includes(`${prefix}.${name}`));
      expect(of, name).toEqual(isBlockMatrix(parameter) ? ['momentum'] : ['m', 'v']);
      return [name, of];
    }),
  );
  expect(state.names.length).toBe(Object.values(prefixes).flat().length);
  expect(manifest.configuration).toMatchObject({ optimizer: 'muon', muonLearningRate: 0.02, muonMomentum: 0.95 });
  run([...steps, '--out', 'resumed', '--stop-after', '5']);
  run(['--out', 'resumed', '--resume']);
  expect(figuresOf(place.path('resumed'))).toEqual(figuresOf(place.path('straight')));
  expect(files('resumed')).toEqual(files('straight'));
  const { code, stderr } = place.run(['train', '--out', 'resumed', '--resume', '--optimizer', 'adamw']);
  expect(code).toBe(1);
  expect(stderr).toContain('--optimizer');
});

it.each(['0', '1'])('gives on two ranks with --zero %s what one gives with accumulation', (zero) => {
  const out = `two-${zero}`;
  expect(run([...steps, '--out', out, '--gpus', '2', '--zero', zero])).toContain('2 ranks on this machine');
  expectSameLosses(out);
});

it('continues with one rank after two, and with three after one', () => {
  run([...steps, '--out', 'moved', '--gpus', '2', '--stop-after', '4']);
  run(['--out', 'moved', '--resume', '--gpus', '1', '--stop-after', '8']);
  run(['--out', 'moved', '--resume', '--gpus', '3']);
  expectSameLosses('moved');
});

it('names its rate, which is no lower from weights', () => {
  const sizes = ['--layers', '--channels', '--heads', '--context'];
  const others = tinyRanks.filter((arg, index) => !sizes.includes(arg) && !sizes.includes(tinyRanks[index - 1] ?? ''));
  const given = ['--batch', '2', '--steps', '1', '--optimizer', 'muon', '--model', 'straight', '--out', 'tuned'];
  expect(run([...others, ...given])).toContain(
    "Muon's learning rate is 0.02, that of a new model; --muon-lr sets another",
  );
});

it('is swept over --muon-lr', () => {
  const stdout = run([...steps, '--out', 'sweep', '--sweep', 'muon-lr=0.01,0.05']);
  expect(stdout).toMatch(/muon-lr|muonLearningRate/);
  expect(stdout).toContain('0.05');
});

it('captures a step that is not finite, and replays it', () => {
  const { code, stderr } = place.run(['train', ...steps, '--out', 'broken', '--muon-lr', '1e38', '--warmup', '0']);
  expect(code).toBe(1);
  const [, capture] = /captured: .*(captures\/step-\d+)/.exec(stderr)!;
  expect(place.run(['replay', join('broken', capture!)]).stdout).toContain('equal to the capture, to the last bit');
});

it('differs from one with AdamW for compare', () => {
  run([...tinyRanks, ...sharedSteps, '--steps', '12', '--val-every', '0', '--out', 'adamw']);
  const { stdout, stderr } = place.run(['compare', 'straight', 'adamw']);
  expect(stdout + stderr).toContain('configured with optimizer adamw instead of muon');
});

it('is measured by bench, op by op', () => {
  const flags = '--model d6 --batch 1 --seq 8 --optimizer muon --newton-schulz quintic --no-start'.split(' ');
  const { stdout } = place.ok(['bench', ...flags, '--steps', '1', '--warmup-seconds', '0']);
  expect(stdout).toMatch(/^ {2}optimizer scratch +/m);
  // 36 block matrices of 384 x 384 or 384 x 1536, in a batch of each shape.
  for (const [op, calls] of [
    ['muon momentum', 36],
    ['normalize matrices', 2],
    ['newton schulz', 10],
    ['muon update', 36],
  ]) {
    expect(stdout).toMatch(new RegExp(`^${op} +${calls} `, 'm'));
  }
});
