// Changes single bytes of a run's files, one at a time: test/end-to-end/change-bytes.ts.
//
//   node --import tsx scripts/change-bytes.ts [--changes 1000] [--seed 1]
import { parseArgs } from 'node:util';
import { changeBytes } from '../test/end-to-end/change-bytes.ts';

const { values } = parseArgs({
  options: { changes: { type: 'string', default: '1000' }, seed: { type: 'string', default: '1' } },
});
const begin = performance.now();
const reports = await changeBytes({ changes: Number(values.changes), seed: Number(values.seed) });
console.log('| file | bytes | changes | noticed | harmless | silent |\n|---|---:|---:|---:|---:|---:|');
const sum = (counts: Iterable<number>) => [...counts].reduce((all, count) => all + count, 0);
const row = (...cells: (string | number)[]) => console.log(`| ${cells.join(' | ')} |`);
for (const { file, bytes, changes, noticed, harmless, silent } of reports) {
  row(file, bytes, changes, noticed, sum(harmless.values()), silent.length);
}
row(
  'all',
  sum(reports.map(({ bytes }) => bytes)),
  sum(reports.map(({ changes }) => changes)),
  sum(reports.map(({ noticed }) => noticed)),
  sum(reports.flatMap(({ harmless }) => [...harmless.values()])),
  sum(reports.map(({ silent }) => silent.length)),
);
for (const { file, harmless, silent } of reports) {
  for (const [reason, count] of harmless) console.log(`${file}, ${count} harmless: ${reason}`);
  for (const text of silent) console.log(`${file}, silent: ${text}`);
}
console.log(`${((performance.now() - begin) / 1000).toFixed(0)} s`);
process.exitCode = reports.some(({ silent }) => silent.length > 0) ? 1 : 0;
