// `kernel bench`: prints a kernel's times with the bound and the times of the library's op and of earlier versions. child.ts measures.
import { formatRate, formatTable, shortTime } from '../report/format-text.ts';
import type { TimedRow, TimedSize } from '../report/kernel-round.ts';
import type { OpBench, Times } from './bench-op.ts';
import { addToHistory, type Entry, earlierVersions, readHistory } from './history.ts';
import type { KernelProcess } from './kernel-process.ts';
import type { Job } from './messages.ts';
import type { LabOptions } from './test-kernels.ts';

const barWidth = 30;
/** Most earlier versions of a kernel in the terminal's chart. */
const mostInTerminal = 5;

interface Benching {
  /** A quick measurement: GPU clocks are not read, and the library's times of an earlier measurement are reused. */
  readonly isBrief?: boolean;
  readonly onLine: (line: string) => void;
  readonly onTimed?: (timed: TimedSize) => void;
}

/** Times each job (an op's kernel in one dtype) in the process `child`. @throws Gpt2Error as `KernelProcess.ask` */
export async function benchJobs(child: KernelProcess, jobs: readonly Job[], options: LabOptions, benching: Benching) {
  const { folder, device, batch } = options;
  const { isBrief, onLine, onTimed } = benching;
  for (const job of jobs) {
    await child.ask({ ask: 'bench', folder, device, batch, isBrief, ...job }, (message) => {
      if (message.say !== 'bench') return;
      const { results, clocks, hash, on } = message;
      const version = { ...job, hash, device: on };
      const history = readHistory(folder);
      const failure = addToHistory(folder, version, results);
      for (const result of results) {
        const { sizes, calls } = result;
        const earlier = earlierVersions(history, { ...version, sizes });
        const title = `${job.op} ${job.dtype}, ${sizes}, ${calls} ${calls === 1 ? 'call' : 'calls'} a step, on ${on}`;
        const timed = { title, ...timesOf(result, earlier) };
        onLine(timed.title);
        for (const line of chart(timed)) onLine(`  ${line}`);
        onTimed?.(timed);
      }
      if (clocks !== null) onLine(`while it ran: ${clocks}`);
      if (failure !== undefined) onLine(failure);
    });
  }
}

type EarlierTimes = Pick<Entry, 'hash' | 'time' | keyof Times>;

/** Table rows for the bound, the library's op (`ours`), the user's kernel (`own`) and its earlier versions. `ms` is the cold time. */
export function timesOf({ flops, bytes, bound, ours, own }: OpBench, earlier: readonly EarlierTimes[]) {
  const row = (name: string, { cold, hot }: Times): TimedRow => ({
    cells: [
      ...[name, ms(cold), ms(hot), (bytes / cold / 1e6).toFixed(0)],
      ...[flops > 0 ? formatRate(flops / cold / 1e9) : '-', `${((100 * bound) / cold).toFixed(1)}%`],
    ],
    ms: cold,
  });
  return {
    head: ['', 'ms', 'ms in L2', 'GB/s', 'TFLOP/s', 'of bound'],
    rows: [{ cells: ['bound', ms(bound), '', '', '', ''], ms: bound }, row('ours', ours), row('this kernel', own)],
    earlier: earlier.map((entry) => row(`${entry.hash.slice(0, 6)} ${shortTime(entry.time)}`, entry)),
  };
}

export function chart({ head, rows, earlier }: Pick<TimedSize, 'head' | 'rows' | 'earlier'>): string[] {
  const shown = [...rows, ...earlier.slice(0, mostInTerminal)];
  const longest = Math.max(...shown.map(({ ms }) => ms));
  const bars = shown.map(({ ms }) => '█'.repeat(Math.max(1, Math.round((barWidth * ms) / longest))));
  const table = formatTable([head, ...shown.map(({ cells }) => cells)]).split('\n');
  const width = Math.max(...table.map(({ length }) => length));
  return table.map((line, index) => `${line.padEnd(width)}  ${['', ...bars][index]}`.trimEnd());
}

const ms = (value: number): string => value.toPrecision(4);
