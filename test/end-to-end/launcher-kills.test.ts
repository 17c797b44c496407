// A launcher that is killed while its ranks are still being loaded leaves none behind.
import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { Workplace } from '../support/cli.ts';
import { rounds, seed } from '../support/rounds.ts';
import { killLauncher } from './launcher-kills.ts';

// Loading takes a second or so: in the first of these the channel closes before the rank listens, in the last perhaps after.
it.skipIf(!existsSync('/proc/self/environ'))(
  'ranks end with a launcher that is killed 0, 0.2 and 0.6 s after it has started them (needs Linux)',
  async () => {
    using place = new Workplace();
    const random = new Random(seed);
    const more = Array.from({ length: rounds - 1 }, () => random.uniform() * 2000);
    for (const milliseconds of [0, 200, 600, ...more]) {
      const kill = await killLauncher(
        place,
        async (ranksStarted) => {
          while (ranksStarted() < 2) await setTimeout(5);
          await setTimeout(milliseconds);
        },
        60,
      );
      expect(kill, `after ${milliseconds} ms`).toMatchObject({ ranks: 2, orphans: 0 });
    }
  },
);
