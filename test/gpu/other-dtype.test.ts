// A run that goes on in another dtype, or on another device: it says what is other, and its losses stay within that change's
// tolerance of a run that went through.
import { expect, it } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import { describeCuda, hasCudaDtype } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';

describeCuda('resume', () => {
  it.each(
    [
      // bf16 keeps 8 bits of each number: a loss of 4.8 is right to some thousandths.
      { from: 'cuda fp32', to: 'cuda bf16', within: 0.02, said: /--dtype bf16 in place of the run's fp32/ },
      { from: 'cuda bf16', to: 'cuda fp32', within: 0.02, said: /--dtype fp32 in place of the run's bf16/ },
      { from: 'cuda bf16', to: 'cuda fp8', within: 0.05, said: /--dtype fp8 in place of the run's bf16/ },
      { from: 'cuda fp32', to: 'cpu fp32', within: 1e-4, said: /computed by \w+ so far, by \w+ from here on/ },
    ].filter(({ to }) => !to.endsWith('fp8') || hasCudaDtype('fp8')),
  )('from $from to $to', ({ from, to, within, said }) => {
    using place = new Workplace();
    place.data({ vocabulary: 128 });
    const options = '--layers 2 --channels 128 --heads 2 --context 64 --batch 2 --seq 64 --steps 20 --val-every 0';
    const on = (where: string) => {
      const [device, dtype] = where.split(' ') as [string, string];
      return ['--device', device, '--dtype', dtype];
    };
    const train = (...args: string[]) => place.ok(['train', '--sample-every', '0', ...args]).stdout;
    const given = [...options.split(' '), '--data', 'data', ...on(from)];
    train(...given, '--out', 'straight');
    train(...given, '--out', 'moved', '--stop-after', '10');
    expect(train('--out', 'moved', '--resume', '--stop-after', '20', ...on(to))).toMatch(said);
    const losses = (out: string) => readRun(place.path(out)).series.train.map(([, loss]) => loss);
    const [straight, moved] = [losses('straight'), losses('moved')];
    expect(moved.slice(0, 10)).toEqual(straight.slice(0, 10));
    for (const [step, loss] of moved.entries()) {
      expect(Math.abs(loss - straight[step]!), `step ${step}`).toBeLessThan(within);
    }
  });
});
