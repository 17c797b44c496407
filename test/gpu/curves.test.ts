// The whole program on the GPU against llm.c's recorded curves, as a user runs it.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';

const shared = fileURLToPath(new URL('../../../shared/datasets', import.meta.url));
const datasets = process.env.GPT2_DATASETS ?? (existsSync(shared) ? shared : undefined);

const d12 =
  '--model d12 --batch 4 --seq 1024 --steps 200 --lr 3e-4 --warmup 20 --final-lr-frac 0.1 --weight-decay 0.1 --val-every 20 --val-steps 7';
const d6 =
  '--model d6 --batch 4 --seq 64 --steps 400 --lr 6e-4 --warmup 40 --final-lr-frac 0.1 --weight-decay 0.1 --val-every 50 --val-steps 20';

describeCuda('curves', () => {
  it.skipIf(!datasets).each([
    ['llmc-d12-fp32-b4-t1024', d12, 'fp32'],
    ['llmc-d12-bf16-b4-t1024', d12, 'bf16'],
    ['llmc-d6-fp32-b4-t64', d6, 'fp32'],
  ])('lies on %s (needs GPT2_DATASETS)', { timeout: 300_000 }, (name, options, dtype) => {
    using place = new Workplace();
    const run = (...args: string[]) => {
      const result = place.run(args, { GPT2_DATASETS: datasets! });
      expect(result.code, result.stderr).toBe(0);
      return result.stdout;
    };
    run('prepro', 'tinyshakespeare');
    run('train', ...options.split(' '), '--dtype', dtype, '--device', 'cuda', '--sample-every', '0', '--out', 'run');
    const table = run('compare', 'run');
    expect(table).toContain(`run vs ${name}`);
    expect(table).toContain(`inside the limits of ${name}`);
    console.log(table);
  });
});
