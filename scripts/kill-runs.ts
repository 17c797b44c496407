// Kills a run with SIGKILL some hundred times and resumes it: test/end-to-end/kills.ts.
//
//   node --import tsx scripts/kill-runs.ts [--kills 200] [--seed 1]
import { parseArgs } from 'node:util';
import { killRuns } from '../test/end-to-end/kills.ts';

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '200' }, seed: { type: 'string', default: '1' } },
});
const begin = performance.now();
const report = await killRuns({ kills: Number(values.kills), seed: Number(values.seed) });
console.log(
  `${report.kills} kills, ${report.beforeFirstStep} of them before a line was logged: ${report.steps} steps, none lost, ` +
    `none repeated, bit for bit; ${report.damaged} damaged checkpoints; ${((performance.now() - begin) / 1000).toFixed(0)} s`,
);
