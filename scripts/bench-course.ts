// Times the course's rungs that have a card, and the library's ops, on the calls of a training step of d12: in the dtype of --dtype
// if the card supports it, else in the card's first dtype. `npm run docs` makes the course's tables from FILE. With --best, times only
// the last rung of each op; with --only, times only the named rungs, whose new results replace their old results in FILE.
//   node --import tsx scripts/bench-course.ts --out FILE.json [--batch 8] [--dtype bf16] [--best] [--only CHAPTER/RUNG,...]
import { readFileSync, writeFileSync } from 'node:fs';
import { benchOp } from '../src/lab/bench-op.ts';
import { courseRungs } from '../src/lab/ladder.ts';
import { casesNamed } from '../src/lab/ops.ts';
import { stepCalls } from '../src/lab/step-calls.ts';
import { Device, type Dtype } from '../src/native/device.ts';
import { useCards } from '../src/ops/kernels/use-cards.ts';
import { readFlags } from './flags.ts';

const flags = readFlags({ batch: 8, best: false, dtype: 'bf16', only: '', out: '' });
const { batch, best, dtype: wanted, out } = flags;
const only = flags.only === '' ? undefined : flags.only.split(',');
const all = await courseRungs();
const unknown = only?.find((rung) => !all.some(({ name }) => name === rung));
if (unknown !== undefined) throw new Error(`there is no rung ${unknown}: --only takes CHAPTER/RUNG`);
if (out === '') throw new Error('there is no file to write: give --out FILE.json');
const rungs = all.filter(({ name }) => only?.includes(name) ?? true);
const rows = rungs.flatMap(({ name, cards }) =>
  cards.map((card) => {
    const taken: readonly Dtype[] = card.dtypes ?? ['fp32'];
    return { rung: name, card, dtype: taken.includes(wanted as Dtype) ? (wanted as Dtype) : taken[0]! };
  }),
);
const lastOf = new Map(rows.filter(({ dtype }) => dtype === wanted).map((row) => [row.card.op, row]));
const chosen = best ? rows.filter((row) => lastOf.get(row.card.op) === row) : rows;
interface Result {
  readonly rung: string;
  readonly op: string;
}
const results: Result[] = [];
let codePath = '';
let name = '';
let clocks: string | null = null;
for (const dtype of ['bf16', 'fp32'] as const) {
  const timed = chosen.filter((row) => row.dtype === dtype);
  if (timed.length === 0) continue;
  using device = Device.open({ kind: 'cuda', dtype });
  ({ codePath, device: name } = device.description);
  const calls = await stepCalls(device, batch);
  for (const { rung, card } of timed) {
    await useCards(device, [card]);
    const benched = await benchOp(device, casesNamed(card.op), calls, { gpu: 0 });
    clocks = benched.clocks;
    results.push(...benched.results.map((result) => ({ rung, op: card.op, dtype, ...result })));
    const [ms, ours] = (['own', 'ours'] as const).map((which) =>
      benched.results.reduce((sum, result) => sum + result.calls * result[which].cold, 0),
    );
    console.log(`${rung} ${card.op} ${dtype}: ${ms!.toPrecision(4)} ms a step, ours ${ours!.toPrecision(4)}`);
  }
}
const [date, command] = [new Date().toISOString(), `scripts/bench-course.ts ${process.argv.slice(2).join(' ')}`];
const measured = { date, command, device: name, codePath, clocks, batch };
writeFileSync(out, `${JSON.stringify(only ? again(only) : { ...measured, results }, undefined, 1)}\n`);

/** The contents of the file `out`, with the new results in place of the old results of `rungs`. */
function again(rungs: readonly string[]) {
  const bench = JSON.parse(readFileSync(out, 'utf8')) as { again?: object[]; results: Result[] };
  const keyOf = ({ rung, op }: Result) => `${rung} ${op}`;
  const seen = new Set<string>();
  const merged = bench.results.flatMap((old) => {
    if (!rungs.includes(old.rung)) return [old];
    if (seen.has(keyOf(old))) return [];
    seen.add(keyOf(old));
    return results.filter((result) => keyOf(result) === keyOf(old));
  });
  const added = results.filter((result) => !seen.has(keyOf(result)));
  return { ...bench, again: [...(bench.again ?? []), { rungs, ...measured }], results: [...merged, ...added] };
}
