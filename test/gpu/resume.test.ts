// A run on the GPU that was stopped and resumed ends in the weights of one that went through, in bf16, to the last bit.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';

describeCuda('resume', () => {
  it.each([64, 128])('stopped after 3 of 7 steps, %i tokens a step of 64', (totalBatch) => {
    using place = new Workplace();
    place.data();
    const options = `--layers 2 --channels 128 --heads 2 --context 32 --batch 2 --seq 32 --total-batch ${totalBatch} --steps 7 --val-every 2 --val-steps 2 --sample-every 3 --device cuda --data data`;
    const train = (out: string, ...more: string[]) => {
      const { code, stderr } = place.run(['train', ...options.split(' '), '--out', out, ...more]);
      expect(code, stderr).toBe(0);
    };
    train('straight');
    train('stopped', '--stop-after', '3');
    const { code, stderr } = place.run(['train', '--out', 'stopped', '--resume', '--stop-after', '7']);
    expect(code, stderr).toBe(0);
    const events = (out: string) =>
      readFileSync(place.path(out, 'log.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map(
          (line) =>
            JSON.parse(line) as { event: string; step?: number; loss?: number; norm?: number; weights?: string },
        )
        .filter(({ event }) => event === 'train' || event === 'val' || event === 'done')
        .map(({ event, step, loss, norm, weights }) => ({ event, step, loss, norm, weights }));
    expect(events('stopped')).toEqual(events('straight'));
    expect(events('straight').at(-1)?.weights).toMatch(/^[0-9a-f]{64}$/);
  });
});
