// Writes faults.md from faults.json and results: node faults-table.mjs before=faults-before.json [after=faults-after.json]
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const read = (path) => JSON.parse(readFileSync(path, 'utf8'));
const faults = read(join(here, 'faults.json'));
const columns = process.argv.slice(2).map((each) => {
  const [name, file] = each.split('=');
  const path = existsSync(file) ? file : join(here, file);
  return { name, found: read(path).faults };
});
const cell = (text) => String(text).replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
const short = (path) => path.replace(/^test\//, '');
function outcome(found) {
  if (!found) return 'not run yet';
  const { result, by, where, seconds } = found;
  if (result === 'caught') return `${short(by)} (${seconds} s${where === 'area' ? '' : `, ${where}`})`;
  return result === 'not planted' ? result : `**${result}**`;
}
const rows = faults.map(({ id, file, why, tests }) => [
  ...[id, file, why, tests.map(short).join(', ')],
  ...columns.map(({ found }) => outcome(found[id])),
]);
const head = ['id', 'file', 'fault', 'tests of its area', ...columns.map(({ name }) => `${name}: caught by`)];
const line = (cells) => `| ${cells.map(cell).join(' | ')} |`;
const counts = columns.map(({ name, found }) => {
  const of = (result) => faults.filter(({ id }) => found[id]?.result === result).length;
  const open = faults.filter(({ id }) => !found[id]).length;
  return `${name}: ${of('caught')} caught, ${of('survived')} survived, ${of('survived its area')} survived the tests of their area (fast suite not run yet), ${of('not planted')} not planted, ${open} not run yet.`;
});
writeFileSync(join(here, 'faults.md'), ['# Planted faults', '', ...counts.flatMap((each) => [each, '']), line(head), line(head.map(() => '---')), ...rows.map(line), ''].join('\n'));
