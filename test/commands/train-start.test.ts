// The lines that train prints before step 0.
import { expect, it } from 'vitest';
import { tinyModel, Workplace } from '../support/cli.ts';

it.each([
  [['--total-batch', '128'], '80 steps of 128 tokens, 2 micro-batches each, 2.05 epochs; saves to run'],
  [[], '80 steps of 64 tokens, 1.02 epochs; saves to run'],
  [['--seq', '16', '--stop-after', '1'], '80 steps of 32 tokens; saves to run'],
])('train %j', (more, line) => {
  using place = new Workplace();
  place.data({ train: 5000, vocabulary: 100 });
  const sizes = ['--batch', '2', '--seq', '32', '--steps', '80'];
  const never = ['--val-every', '0', '--sample-every', '0', '--save-every', '0', '--stop-after', '1'];
  const { stdout } = place.ok([
    ...['train', '--data', 'data', '--out', 'run', ...tinyModel, ...sizes, ...never, ...more],
  ]);
  expect(stdout.split('\n')).toContain(line);
});
