// Kills one of two ranks during a save, some dozen times: test/end-to-end/rank-kills.ts.
//
//   node --import tsx scripts/kill-ranks.ts [--kills 50] [--seed 1] [--device cpu|cuda]
import { parseArgs } from 'node:util';
import { killRanks } from '../test/end-to-end/rank-kills.ts';

const { values } = parseArgs({
  options: {
    ...{ kills: { type: 'string', default: '50' }, seed: { type: 'string', default: '1' } },
    device: { type: 'string', default: 'cpu' },
  },
});
const kind = values.device === 'cuda' ? 'cuda' : 'cpu';
const report = await killRanks({ kills: Number(values.kills), seed: Number(values.seed), kind });
const ends = Object.entries(report.ends).map(([code, count]) => `${count} with ${code}`);
console.log(
  `${report.kills} ranks killed during a save, on ${kind}: ${report.whole} complete checkpoints, ${report.different} of which differ ` +
    `from an uninterrupted job's; the other rank ended ${ends.join(', ')}, ${report.longestSeconds.toFixed(1)} s later at most`,
);
process.exitCode = report.different > 0 ? 1 : 0;
