// Makes the tables of the course's pages from benchmarks/h100/{course,course-best,ladder}.json.
import course from '../benchmarks/h100/course.json' with { type: 'json' };
import best from '../benchmarks/h100/course-best.json' with { type: 'json' };
import ladder from '../benchmarks/h100/ladder.json' with { type: 'json' };
import type { OpBench } from '../src/lab/bench-op.ts';
import { table } from './docs-options.ts';

/** The times of an op at one of its sizes, in milliseconds. */
type Result = Readonly<Record<'rung' | 'op' | 'dtype', string>> &
  Readonly<Record<'ours' | 'own', { readonly cold: number }>> &
  Pick<OpBench, 'calls' | 'bound'> & { readonly pytorch?: number };

type Bench = Pick<typeof course, 'date' | 'device' | 'codePath' | 'batch'> & {
  readonly clocks: string | null;
  readonly results: readonly Result[];
  /** Rungs that were measured again, in another session. */
  readonly again?: typeof course.again;
  readonly pytorch?: string;
};

const percent = (share: number): string => `${(100 * share).toFixed(0)}%`;
const ms = (value: number): string => (value < 0.1 ? value.toPrecision(2) : value.toPrecision(3));

/** Sums results over a step's calls: one sum for each rung, op and dtype, in the order of the file. */
function bySteps({ results }: Bench) {
  const groups = new Map<string, Result[]>();
  for (const result of results) {
    const key = [result.rung, result.op, result.dtype].join();
    groups.set(key, [...(groups.get(key) ?? []), result]);
  }
  return [...groups.values()].map((group) => {
    const sum = (of: (result: Result) => number) =>
      group.reduce((total, result) => total + result.calls * of(result), 0);
    const { rung, op, dtype } = group[0]!;
    return {
      ...{ rung, op, dtype, calls: sum(() => 1), bound: sum(({ bound }) => bound) },
      ...{ own: sum(({ own }) => own.cold), ours: sum(({ ours }) => ours.cold) },
      pytorch: sum(({ pytorch }) => pytorch ?? Number.NaN),
    };
  });
}

function provenance(bench: Bench, name: string, depth: string, chapter = ''): string {
  const { date, clocks, batch, device, codePath, again = [] } = bench;
  return [
    `Milliseconds of all calls in a step of d12 with ${batch} x 1024 tokens; each with its tensors in the GPU's memory. The bound is explained`,
    `in [docs/kernels.md](${depth}docs/kernels.md#time-a-kernel); "ours" is the library's op, called by itself.`,
    `${device} (${codePath}), driver ${clocks?.split(', ')[1]}, ${date.slice(0, 10)}, [${name}](${depth}benchmarks/h100/${name}).`,
    ...again.flatMap(({ rungs, date: later }) => {
      const repeated = rungs.filter((rung) => rung.startsWith(chapter)).map((rung) => rung.split('/')[1]);
      return repeated.length === 0
        ? []
        : [`Measured again after a change, in another session: ${repeated.join(', ')} (${later.slice(0, 10)}).`];
    }),
  ].join('\n');
}

export function courseChapter([chapter = '']: readonly string[]): string {
  const rows = bySteps(course).filter(({ rung }) => rung.startsWith(`${chapter}/`));
  if (rows.length === 0) throw new Error(`course.json has no chapter "${chapter}"`);
  const cells = rows.map(({ rung, op, dtype, calls, own, ours, bound }) => [
    ...[rung.split('/')[1]!, op, dtype, String(calls)],
    ...[ms(own), percent(bound / own), ms(ours), percent(bound / ours)],
  ]);
  const head = ['rung', 'op', 'dtype', 'calls', 'ms', 'of the bound', 'ours, ms', 'of the bound'];
  return `${table(head, cells, 3)}\n\n${provenance(course, 'course.json', '../../../', `${chapter}/`)}`;
}

export const courseBest = (): string => bestTable(best);

/** The table of each op's best rung. It has a column for PyTorch only if `bench` has PyTorch's times. */
export function bestTable(bench: Bench): string {
  const isPeered = bench.pytorch !== undefined;
  const cells = bySteps(bench).map(({ rung, op, calls, own, ours, bound, pytorch }) => [
    ...[op, rung, String(calls), ms(own), percent(bound / own), ms(ours), percent(bound / ours)],
    ...(isPeered ? [Number.isNaN(pytorch) ? '' : ms(pytorch)] : []),
  ]);
  const head = ['op', 'rung', 'calls', 'ms', 'of the bound', 'ours, ms', 'of the bound'];
  if (isPeered) head.push('PyTorch, ms');
  const made = `${table(head, cells, 2)}\n\n${provenance(bench, 'course-best.json', '../../')}`;
  if (!isPeered) return made;
  const peer = `PyTorch ${bench.pytorch}, op by op, in the same session (\`scripts/bench-pytorch-ops.py\`). Its AdamW leaves out the copy of the weights in bf16.`;
  return `${made}\n${peer}`;
}

/** The table of the ladder: the time of a training step with each set of kernels. */
export function courseLadder(): string {
  const { steps, what, command, date } = ladder;
  const rate = (value: number) => Math.round(value).toLocaleString('en-US');
  const cells = steps.map(({ name, dtype, ms: step, tokensPerSecond }) => [
    ...[name, dtype, step.toPrecision(4), rate(tokensPerSecond)],
    (tokensPerSecond / steps[0]!.tokensPerSecond).toPrecision(3),
  ]);
  const head = ['new rung', 'dtype', 'ms a step', 'tokens/s', 'times naive'];
  return `${table(head, cells, 2)}\n\n\`${command}\`, ${what}, ${date.slice(0, 10)}, [ladder.json](../../benchmarks/h100/ladder.json).`;
}
