// The whole program against llm.c's recorded curve: prepro, train, compare, sample, as a user calls them.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Workplace, withCode } from '../support/cli.ts';
import { publishedTexts as datasets } from '../support/published.ts';

it.skipIf(!datasets)(
  'd6, fp32, B 4, T 64: 31 steps lie on the curve (needs GPT2_DATASETS)',
  { timeout: 600_000 },
  () => {
    using place = new Workplace();
    const run = (...args: string[]) => place.ok(args, { GPT2_DATASETS: datasets! });
    run('prepro', 'tinyshakespeare');
    const options = '--preset llmc-d6-fp32-b4-t64 --stop-after 31 --sample-every 0 --device cpu --out run';
    run('train', ...options.split(' '));

    const inside =
      'inside the limits of llmc-d6-fp32-b4-t64; steps with a limit: train 31 of 31, val 1 of 1, norm 31 of 31';
    expect(run('compare', 'run').stdout).toContain(inside);
    expect(readFileSync(place.path('run', 'compare.svg'), 'utf8')).toContain('</svg>');
    const text = run('sample', '--model', 'run', '--prompt', 'ROMEO:', '--tokens', '8', '--device', 'cpu').stdout;
    expect(text.startsWith('ROMEO:')).toBe(true);
    // A tolerance that no fp32 run can meet: the verdict has to be able to fail.
    const strict = withCode(1, place.run(['compare', 'run', '--tolerance', '0.000001']));
    expect(strict.stderr).toContain('outside the limits of llmc-d6-fp32-b4-t64: train at step');
  },
);
