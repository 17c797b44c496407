// The whole program against llm.c's recorded curve: prepro, train, compare, sample, as a user calls them.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { readReference } from '../../src/report/compare/reference.ts';
import { readRun } from '../../src/runs/reader.ts';
import { Workplace } from '../support/cli.ts';

const shared = fileURLToPath(new URL('../../../shared/datasets', import.meta.url));
const datasets = process.env.GPT2_DATASETS ?? (existsSync(shared) ? shared : undefined);

it.skipIf(!datasets)(
  'd6, fp32, B 4, T 64: 31 steps lie on the curve (needs GPT2_DATASETS)',
  { timeout: 600_000 },
  () => {
    using place = new Workplace();
    const run = (...args: string[]) => {
      const result = place.ok(args, { GPT2_DATASETS: datasets! });
      return result;
    };
    run('prepro', 'tinyshakespeare');
    const options = '--preset llmc-d6-fp32-b4-t64 --stop-after 31 --sample-every 0 --device cpu --out run';
    run('train', ...options.split(' '));

    const { series } = readRun(place.path('run'));
    const reference = readReference('llmc-d6-fp32-b4-t64');
    expect(series.train.length).toBe(31);
    const recorded = {
      train: new Map(reference.series.train),
      norm: new Map(reference.series.norm),
      val: new Map(reference.series.val),
    };
    for (const [step, loss] of series.train) {
      expect(Math.abs(loss - recorded.train.get(step)!), `loss of step ${step}`).toBeLessThan(0.0002);
    }
    for (const [step, norm] of series.norm) {
      const wanted = recorded.norm.get(step)!;
      expect(Math.abs(norm - wanted), `norm of step ${step}`).toBeLessThan(wanted > 4 ? wanted * 0.005 : 0.02);
    }
    expect(Math.abs(series.val[0]![1] - recorded.val.get(0)!)).toBeLessThan(0.0002);

    const { stdout } = run('compare', 'run');
    expect(stdout).toContain('run vs llmc-d6-fp32-b4-t64');
    expect(readFileSync(place.path('run', 'compare.svg'), 'utf8')).toContain('</svg>');
    const text = run('sample', '--model', 'run', '--prompt', 'ROMEO:', '--tokens', '8', '--device', 'cpu').stdout;
    expect(text.startsWith('ROMEO:')).toBe(true);
    // A tolerance that no fp32 run can meet: the verdict has to be able to fail.
    const strict = place.run(['compare', 'run', '--tolerance', '0.000001']);
    expect(strict.code).toBe(1);
    expect(strict.stderr).toContain('outside the limits of llmc-d6-fp32-b4-t64: train at step');
  },
);
