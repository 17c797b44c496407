// Kills a run with SIGKILL at random moments and resumes it: test/end-to-end/kills.ts.
//
//   node --import tsx scripts/kill-runs.ts [--kills 200] [--seed 1]
import { killRuns } from '../test/end-to-end/kills.ts';
import { readFlags } from './flags.ts';

const begin = performance.now();
const report = await killRuns(readFlags({ kills: 200, seed: 1 }));
console.log(
  `${report.kills} kills, ${report.beforeFirstStep} of them before a line was logged: ${report.steps} steps, none lost, ` +
    `none repeated, bit for bit; ${report.damaged} damaged checkpoints; ${((performance.now() - begin) / 1000).toFixed(0)} s`,
);
