// Times the kernels of a folder in a process of their own, and compares them with the bound, ours and earlier versions.
import { formatTable } from '../report/table.ts';
import type { OpBench, Times } from './bench-op.ts';
import { addToHistory, earlierVersions, readHistory } from './history.ts';
import type { KernelProcess } from './kernel-process.ts';
import type { Job, LabOptions } from './test-kernels.ts';

const barWidth = 30;

interface Benching {
  /** Reads no clocks, and measures the library's op only once. */
  readonly isBrief?: boolean;
  readonly onLine: (line: string) => void;
}

/** Times all jobs. @throws Gpt2Error as `KernelProcess.ask` */
export async function benchJobs(
  child: KernelProcess,
  jobs: readonly Job[],
  { folder, device, batch }: LabOptions,
  { isBrief, onLine }: Benching,
): Promise<void> {
  for (const job of jobs) {
    await child.ask({ ask: 'bench', folder, device, batch, isBrief, ...job }, (message) => {
      if (message.say !== 'bench') return;
      const { results, clocks, hash, on } = message;
      const version = { ...job, hash, device: on };
      const history = readHistory(folder);
      const failure = addToHistory(folder, version, results);
      for (const result of results) {
        const { sizes, calls } = result;
        onLine(`${job.op} ${job.dtype}, ${sizes}, ${calls} ${calls === 1 ? 'call' : 'calls'} a step, on ${on}`);
        const earlier = earlierVersions(history, { ...version, sizes });
        const before = earlier.map((entry) => [`${entry.hash.slice(0, 6)} ${shortTime(entry.time)}`, entry] as const);
        for (const line of chart(result, before)) onLine(`  ${line}`);
      }
      if (clocks !== null) onLine(`while it ran: ${clocks}`);
      if (failure !== undefined) onLine(failure);
    });
  }
}

/** "11-21 10:02" */
const shortTime = (time: string): string => time.slice(5, 16).replace('T', ' ');

/** A row for the bound, ours, this kernel and each earlier version; bars are cold times. */
export function chart(result: OpBench, earlier: readonly (readonly [string, Times])[]): string[] {
  const { flops, bytes, bound, ours, own } = result;
  const rows = [['ours', ours] as const, ['this kernel', own] as const, ...earlier];
  const longest = Math.max(bound, ...rows.map(([, { cold }]) => cold));
  const bar = (ms: number) => '█'.repeat(Math.max(1, Math.round((barWidth * ms) / longest)));
  const cells = ([name, { cold, hot }]: readonly [string, Times]) => [
    ...[
      name,
      ms(cold),
      ms(hot),
      (bytes / cold / 1e6).toFixed(0),
      flops > 0 ? (flops / cold / 1e9).toPrecision(3) : '-',
    ],
    `${((100 * bound) / cold).toFixed(1)}%`,
  ];
  const table = formatTable([
    ['', 'ms', 'ms in L2', 'GB/s', 'TFLOP/s', 'of bound'],
    ['bound', ms(bound), '', '', '', ''],
    ...rows.map(cells),
  ]).split('\n');
  const width = Math.max(...table.map(({ length }) => length));
  const bars = ['', bar(bound), ...rows.map(([, { cold }]) => bar(cold))];
  return table.map((line, index) => `${line.padEnd(width)}  ${bars[index]}`.trimEnd());
}

const ms = (value: number): string => value.toPrecision(4);
