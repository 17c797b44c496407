// What NVIDIA's profiler ncu (Nsight Compute) measures of kernels: the metrics to ask for, its CSV, and a table of them.
import { parseSignature } from '../kernels/signature.ts';

/** Values by the names of metrics; a metric that the GPU lacks is not there. */
type Values = ReadonlyMap<string, number>;

/** A launch of a kernel. */
export interface Profiled {
  /** "scale<float, 256>" */
  readonly kernel: string;
  /** "(128, 1, 1)" */
  readonly grid: string;
  readonly block: string;
  readonly values: Values;
}

interface Figure {
  readonly name: string;
  readonly metrics: readonly string[];
  readonly unit: string;
  readonly meaning: string;
}

const conflicts = 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op';
const sectors = 'l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op';

/** A figure is the sum of its metrics. Times are in ns, as `--print-units base` has them. */
const figures: readonly Figure[] = [
  {
    ...{ name: 'duration', metrics: ['gpu__time_duration.sum'], unit: 'ns' },
    meaning: 'at the base clock, unless ncu is given --clock-control none; kernel bench times at the clock of a run',
  },
  {
    ...{ name: 'DRAM', metrics: ['dram__throughput.avg.pct_of_peak_sustained_elapsed'], unit: '%' },
    meaning: "of the memory's rate; over about 80% the kernel is as fast as its bytes",
  },
  {
    ...{ name: 'SM', metrics: ['sm__throughput.avg.pct_of_peak_sustained_elapsed'], unit: '%' },
    meaning: 'of the rate of the busiest unit that computes or issues',
  },
  {
    ...{ name: 'tensor cores', metrics: ['sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active'], unit: '%' },
    meaning: 'of the cycles in which an SM is active; 0 if the kernel does not use them',
  },
  {
    ...{ name: 'issue slots', metrics: ['smsp__issue_active.avg.pct_of_peak_sustained_active'], unit: '%' },
    meaning: 'cycles in which a scheduler issues an instruction; if it is low, warps wait',
  },
  {
    ...{ name: 'L1 hits', metrics: ['l1tex__t_sector_hit_rate.pct'], unit: '%' },
    meaning: 'sectors (32 bytes) that were in the L1 cache',
  },
  {
    ...{ name: 'L2 hits', metrics: ['lts__t_sector_hit_rate.pct'], unit: '%' },
    meaning: 'sectors that were in the L2 cache; what misses comes from DRAM',
  },
  {
    ...{ name: 'sectors a load', metrics: [`${sectors}_ld.ratio`], unit: '' },
    meaning: 'of a warp; 4 if lanes read floats side by side, 32 if each lane reads a place of its own',
  },
  {
    ...{ name: 'sectors a store', metrics: [`${sectors}_st.ratio`], unit: '' },
    meaning: 'the same for what a warp writes',
  },
  {
    ...{ name: 'bank conflicts', metrics: [`${conflicts}_ld.sum`, `${conflicts}_st.sum`], unit: '' },
    meaning: 'extra cycles in which lanes wait because they access different words of one bank of shared memory',
  },
  {
    ...{ name: 'occupancy', metrics: ['sm__warps_active.avg.pct_of_peak_sustained_active'], unit: '%' },
    meaning: 'achieved: warps that an SM held on average; less than kernel show computes if blocks are few or uneven',
  },
  {
    ...{ name: 'registers', metrics: ['launch__registers_per_thread'], unit: '' },
    meaning: 'of a thread',
  },
];

const stall = (reason: string): string => `smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio`;

/** Why warps wait, by ncu's names. */
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
export const ncuMetrics: readonly string[] = [
  ...figures.flatMap(({ metrics }) => metrics),
  ...Object.keys(stalls).map(stall),
];

/** Reads the output of `ncu --csv --print-units base --metrics ...`: a row for each metric of each launch, in order. */
export function parseNcu(text: string): readonly Profiled[] {
  const rows = text.split('\n').filter((line) => line.startsWith('"'));
  const [head, ...others] = rows.map((line) => [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, cell]) => cell!));
  const launches = new Map<string, Profiled & { readonly values: Map<string, number> }>();
  for (const row of others) {
    const cell = (name: string): string => row[head!.indexOf(name)] ?? '';
    const id = `${cell('Process ID')} ${cell('ID')}`;
    const known = launches.get(id) ?? {
      ...{ kernel: nameOf(cell('Kernel Name')), grid: cell('Grid Size'), block: cell('Block Size'), values: new Map() },
    };
    launches.set(id, known);
    // "n/a" where the GPU has no such metric.
    const value = Number(cell('Metric Value').replaceAll(',', ''));
    if (cell('Metric Value') !== '' && !Number.isNaN(value)) known.values.set(cell('Metric Name'), value);
  }
  return [...launches.values()];
}

/** Without its parameters, if ncu prints them. */
const nameOf = (kernel: string): string => parseSignature(kernel).name;

/** Lines for a launch: each figure, its value, and what it means; then the reason for which warps wait most. */
export function profileLines({ kernel, grid, block, values }: Profiled): string[] {
  const rows = figures.map(({ name, metrics, unit, meaning }) => {
    const known = metrics.map((metric) => values.get(metric)).filter((value) => value !== undefined);
    const value =
      known.length === 0 ? '-' : `${short(known.reduce((sum, each) => sum + each, 0))}${unit && ` ${unit}`}`;
    return [name, value, meaning];
  });
  const reasons = Object.keys(stalls).map((reason) => [reason, values.get(stall(reason)) ?? 0] as const);
  const [reason, cycles] = reasons.reduce((most, each) => (each[1] > most[1] ? each : most));
  if (cycles > 0) {
    rows.push(['warps wait', `${short(cycles)} cycles`, `an instruction, most of all ${stalls[reason]} (${reason})`]);
  }
  const [left, right] = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length))) as [number, number];
  return [
    `${kernel}, grid ${grid}, block ${block}`,
    ...rows.map(([name, value, meaning]) => `  ${name!.padEnd(left)}  ${value!.padStart(right)}  ${meaning}`),
  ];
}

const short = (value: number): string => (Number.isInteger(value) ? String(value) : value.toFixed(1));
