// A launcher that is killed while its ranks are still being loaded leaves none behind.
import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Workplace } from '../support/cli.ts';
import { killLauncher } from './launcher-kills.ts';

// Loading takes a second or so: in the first of these the channel closes before the rank listens, in the last perhaps after.
it.skipIf(!existsSync('/proc/self/environ'))(
  'ranks end with a launcher that is killed 0, 0.2 and 0.6 s after it has started them (needs Linux)',
  async () => {
    using place = new Workplace();
    for (const milliseconds of [0, 200, 600]) {
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
  300_000,
);
