// What NVIDIA's profiler ncu (Nsight Compute) measures of kernels: the metrics to ask for, its log, and a table of them.
import { parseSignature } from '../kernels/signature.ts';
import { formatTable } from '../report/table.ts';

/** A launch of a kernel. */
export interface Profiled {
  /** "scale<float, 256>" */
  readonly kernel: string;
  /** "(128, 1, 1)" */
  readonly grid: string;
  readonly block: string;
  /** By the names of metrics; a metric that the GPU lacks is not there. */
  readonly values: ReadonlyMap<string, number>;
}

interface Figure {
  /** With the unit. */
  readonly name: string;
  /** Their sum is the figure. */
  readonly metrics: readonly string[];
  /** What the sum is divided by. */
  readonly per?: (launch: Profiled) => number;
  readonly meaning: string;
}

const conflicts = 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op';
const sectors = 'l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op';

const figures: readonly Figure[] = [
  {
    ...{ name: 'duration, ms', metrics: ['gpu__time_duration.sum'], per: () => 1e6 },
    meaning: 'of the launch, with empty caches before it, as in the column ms of kernel bench',
  },
  {
    ...{ name: 'DRAM, %', metrics: ['dram__throughput.avg.pct_of_peak_sustained_elapsed'] },
    meaning: "of the memory's rate; over about 80% the kernel is as fast as the bytes that it moves",
  },
  {
    ...{ name: 'SM, %', metrics: ['sm__throughput.avg.pct_of_peak_sustained_elapsed'] },
    meaning: 'of the rate of the busiest unit that computes or issues',
  },
  {
    ...{ name: 'tensor cores, %', metrics: ['sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active'] },
    meaning: 'of the cycles in which an SM is active; near 0 if the kernel does not use them',
  },
  {
    ...{ name: 'issue slots, %', metrics: ['smsp__issue_active.avg.pct_of_peak_sustained_active'] },
    meaning: 'cycles in which a scheduler issues an instruction; if few, warps wait',
  },
  {
    ...{ name: 'L1 hits, %', metrics: ['l1tex__t_sector_hit_rate.pct'] },
    meaning: 'of the sectors (32 bytes) that warps access: those found in the L1 cache',
  },
  {
    ...{ name: 'L2 hits, %', metrics: ['lts__t_sector_hit_rate.pct'] },
    meaning: 'of the sectors asked from the L2 cache: those found there; the others come from DRAM',
  },
  {
    ...{ name: 'sectors a load', metrics: [`${sectors}_ld.ratio`] },
    meaning: 'of a warp; 4 if lanes read floats side by side (float4: 16), 32 if each reads elsewhere',
  },
  {
    ...{ name: 'sectors a store', metrics: [`${sectors}_st.ratio`] },
    meaning: 'the same for what a warp writes',
  },
  {
    ...{ name: 'conflicts a warp', metrics: [`${conflicts}_ld.sum`, `${conflicts}_st.sum`], per: warpsOf },
    meaning: 'extra cycles in which lanes access different words of one bank of shared memory',
  },
  {
    ...{ name: 'occupancy, %', metrics: ['sm__warps_active.avg.pct_of_peak_sustained_active'] },
    meaning: 'warps that an SM held on average, of the most that it can hold',
  },
  {
    ...{ name: 'registers', metrics: ['launch__registers_per_thread'] },
    meaning: 'of a thread; 255 at most',
  },
];

const stall = (reason: string): string => `smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio`;

/** What warps wait for, by ncu's names. */
const stalls: Readonly<Record<string, string>> = {
  long_scoreboard: 'for loads from global or local memory',
  short_scoreboard: 'for shared memory, or for exp, tanh and the like',
  barrier: 'at __syncthreads, for the other warps of the block',
  lg_throttle: 'because too many loads and stores of global or local memory are queued',
  mio_throttle: 'because too many accesses of shared memory, or of the like, are queued',
  math_pipe_throttle: 'for the unit that computes, which is busy',
  wait: 'for the fixed latency of the instruction before',
  not_selected: 'while another warp issues: there are enough warps',
  no_instruction: 'for instructions to be fetched',
};

/** What `ncu --metrics` takes. */
const metrics = [...figures.flatMap(({ metrics }) => metrics), ...Object.keys(stalls).map(stall)];

/** Measures what runs between cuProfilerStart and cuProfilerStop, at the clock of any other run. */
export const ncuOptions: readonly string[] = [
  ...['--csv', '--print-units', 'base', '--target-processes', 'all', '--profile-from-start', 'off'],
  ...['--clock-control', 'none', '--metrics', metrics.join(',')],
];

/** The launches in the log of ncu, in order. It has a row for each metric of a launch. */
export function parseNcu(log: string): readonly Profiled[] {
  // Messages of ncu come before and after.
  const rows = log.split('\n').filter((line) => line.startsWith('"'));
  const [head, ...others] = rows.map((line) => [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, cell]) => cell!));
  const launches = new Map<string, Profiled & { readonly values: Map<string, number> }>();
  for (const row of others) {
    const cell = (name: string): string => row[head!.indexOf(name)] ?? '';
    const id = cell('ID');
    const known = launches.get(id) ?? {
      kernel: parseSignature(cell('Kernel Name')).name,
      ...{ grid: cell('Grid Size'), block: cell('Block Size'), values: new Map<string, number>() },
    };
    launches.set(id, known);
    // "n/a" where the GPU has no such metric.
    const value = Number(cell('Metric Value').replaceAll(',', ''));
    if (cell('Metric Value') !== '' && !Number.isNaN(value)) known.values.set(cell('Metric Name'), value);
  }
  return [...launches.values()];
}

/** Why ncu failed and what to do, from its log; undefined: the log does not say. */
export function ncuFailure(log: string): string | undefined {
  if (log.includes('ERR_NVGPUCTRPERM')) {
    return "this user may not read the GPU's performance counters: run the command as root, in a container with the capability SYS_ADMIN (docker run --cap-add SYS_ADMIN), or let the administrator allow it (https://developer.nvidia.com/ERR_NVGPUCTRPERM)";
  }
  const errors = [...log.matchAll(/^==ERROR== (.*)$/gm)].map(([, text]) => text!.trim());
  return errors.length > 0 ? `ncu says: ${errors.join(' ')}` : undefined;
}

/** A row for each figure, with a column for each launch and what the figure means; then what the warps wait for most. */
export function profileTable(launches: readonly Profiled[]): string[] {
  const rows = figures.map(({ name, metrics, per = () => 1, meaning }) => {
    const cells = launches.map((launch) => {
      const known = metrics.map((metric) => launch.values.get(metric)).filter((value) => value !== undefined);
      return known.length === 0 ? '-' : short(known.reduce((sum, each) => sum + each, 0) / per(launch));
    });
    return { cells: [name, ...cells], meaning };
  });
  const waits = Object.entries(stalls).map(([reason, meaning]) => {
    const cycles = launches.map(({ values }) => values.get(stall(reason)) ?? 0);
    return { reason, meaning, cycles };
  });
  const longest = launches.map((_, index) => Math.max(...waits.map(({ cycles }) => cycles[index]!)));
  const isLong = (cycles: readonly number[]) => cycles.some((each, index) => each > 0 && each >= longest[index]! / 2);
  const total = ({ cycles }: { cycles: readonly number[] }) => cycles.reduce((sum, each) => sum + each, 0);
  for (const { reason, meaning, cycles } of waits.toSorted((a, b) => total(b) - total(a))) {
    if (!isLong(cycles)) continue;
    rows.push({ cells: [reason, ...cycles.map(short)], meaning: `cycles an instruction that a warp waits ${meaning}` });
  }
  const head = ['', ...launches.map((_, index) => String(index + 1))];
  const [first, ...lines] = formatTable([head, ...rows.map(({ cells }) => cells)]).split('\n');
  return [first!, ...lines.map((line, index) => `${line}  ${rows[index]!.meaning}`)];
}

/** Of the grid: (4, 2, 1) blocks of (48, 1, 1) threads have 16. */
function warpsOf({ grid, block }: Profiled): number {
  const [blocks, threads] = [grid, block].map((size) =>
    (size.match(/\d+/g) ?? []).reduce((product, each) => product * Number(each), 1),
  ) as [number, number];
  return blocks * Math.ceil(threads / 32);
}

const short = (value: number): string => (value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3))));
