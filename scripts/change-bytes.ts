// Changes single bytes of a run's files, one at a time: test/end-to-end/change-bytes.ts.
//
//   node --import tsx scripts/change-bytes.ts [--changes 1000] [--seed 1]
import { changeBytes } from '../test/end-to-end/change-bytes.ts';
import { readFlags } from './flags.ts';

const begin = performance.now();
const reports = await changeBytes(readFlags({ changes: 1000, seed: 1 }));
console.log('| file | bytes | changes | noticed | harmless | silent |\n|---|---:|---:|---:|---:|---:|');
const sum = (counts: Iterable<number>) => [...counts].reduce((all, count) => all + count, 0);
const row = (...cells: (string | number)[]) => console.log(`| ${cells.join(' | ')} |`);
const counts = reports.map(
  ({ bytes, changes, noticed, harmless, silent }) =>
    [bytes, changes, noticed, sum(harmless.values()), silent.length] as const,
);
for (const [index, { file }] of reports.entries()) row(file, ...counts[index]!);
row('all', ...counts[0]!.map((_, column) => sum(counts.map((one) => one[column]!))));
for (const { file, harmless, silent } of reports) {
  for (const [reason, count] of harmless) console.log(`${file}, ${count} harmless: ${reason}`);
  for (const text of silent) console.log(`${file}, silent: ${text}`);
}
console.log(`${((performance.now() - begin) / 1000).toFixed(0)} s`);
process.exitCode = reports.some(({ silent }) => silent.length > 0) ? 1 : 0;
