// Kills the launcher of two CPU ranks at random moments in its first seconds, and counts the ranks that keep running:
// test/end-to-end/launcher-kills.ts. Runs dist/, which `npm run build:ts` makes.
//
//   node --import tsx scripts/kill-launchers.ts [--kills 50] [--within 2] [--wait 10] [--seed 1]
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Random } from '../src/op-cases/numbers.ts';
import { packageRoot } from '../src/package-root.ts';
import { killLauncher, type LauncherKill } from '../test/end-to-end/launcher-kills.ts';
import { Workplace } from '../test/support/cli.ts';
import { readFlags } from './flags.ts';

const flags = readFlags({ kills: 50, within: 2, wait: 10, seed: 1 });
const program = [join(packageRoot, 'dist/cli.js')];
using place = new Workplace();
const random = new Random(flags.seed);
const kills: LauncherKill[] = [];
while (kills.length < flags.kills) {
  const milliseconds = random.uniform() * flags.within * 1000;
  const kill = await killLauncher(place, () => setTimeout(milliseconds), flags.wait, program);
  if (kill.orphans > 0) console.log(`killed after ${milliseconds.toFixed(0)} ms: ${kill.orphans} orphans`);
  kills.push(kill);
}
const trained = kills.filter((kill) => kill.trained).length;
const loading = kills.filter((kill) => kill.ranks > 0).length - trained;
const orphans = kills.reduce((sum, kill) => sum + kill.orphans, 0);
console.log(
  `${kills.length} launcher kills in the first ${flags.within} s: ${kills.length - loading - trained} before a rank was started, ` +
    `${loading} before training, ${trained} while training; orphans ${flags.wait} s later: ${orphans || 'none'}`,
);
