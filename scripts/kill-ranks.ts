// Kills one of two ranks during a save, again and again: test/end-to-end/rank-kills.ts.
//
//   node --import tsx scripts/kill-ranks.ts [--kills 50] [--seed 1] [--device cpu|cuda]
import { killRanks } from '../test/end-to-end/rank-kills.ts';
import { readFlags } from './flags.ts';

const { kills, seed, device } = readFlags({ kills: 50, seed: 1, device: 'cpu' });
const kind = device === 'cuda' ? 'cuda' : 'cpu';
const report = await killRanks({ kills, seed, kind });
const ends = Object.entries(report.ends).map(([code, count]) => `${count} with ${code}`);
console.log(
  `${report.kills} ranks killed during a save, on ${kind}: ${report.whole} complete checkpoints, ${report.different} of which differ ` +
    `from an uninterrupted job's; the other rank ended ${ends.join(', ')}, ${report.longestSeconds.toFixed(1)} s later at most`,
);
process.exitCode = report.different > 0 ? 1 : 0;
