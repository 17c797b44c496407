// Reads what ncu prints. The text has the form that ncu documents; its numbers are made up.
import { expect, it } from 'vitest';
import { ncuMetrics, parseNcu, profileLines } from '../../src/lab/ncu.ts';

const head =
  '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"';
const row = (id: number, kernel: string, metric: string, unit: string, value: string) =>
  `"${id}","42","node","127.0.0.1","${kernel}","1","7","(256, 1, 1)","(128, 1, 1)","0","9.0","Command line profiler metrics","${metric}","${unit}","${value}"`;
const stall = (reason: string) => `smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio`;
const conflicts = 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op';
const [add, scale] = ['add(float *, const float *, int)', 'void scale<float, (int)256>(float *)'];
const text = `==PROF== Connected to process 42 (/usr/bin/node)
==PROF== Profiling "add" - 0: 0%....50%....100% - 9 passes
${head}
${row(0, add, 'gpu__time_duration.sum', 'ns', '1,234,567')}
${row(0, add, 'dram__throughput.avg.pct_of_peak_sustained_elapsed', '%', '81.25')}
${row(0, add, 'sm__throughput.avg.pct_of_peak_sustained_elapsed', '', 'n/a')}
${row(0, add, `${conflicts}_ld.sum`, '', '1,000')}
${row(0, add, `${conflicts}_st.sum`, '', '24')}
${row(0, add, stall('wait'), 'inst', '1.50')}
${row(0, add, stall('long_scoreboard'), 'inst', '12.34')}
${row(1, scale, 'launch__registers_per_thread', 'register/thread', '32')}
==PROF== Disconnected from process 42
`;

it('reads launches and their metrics, and leaves out what the GPU has not', () => {
  const launches = parseNcu(text);
  expect(launches.map(({ kernel, grid, block }) => [kernel, grid, block])).toEqual([
    ['add', '(128, 1, 1)', '(256, 1, 1)'],
    ['scale<float, (int)256>', '(128, 1, 1)', '(256, 1, 1)'],
  ]);
  expect(launches[0]!.values.get('gpu__time_duration.sum')).toBe(1_234_567);
  expect(launches[0]!.values.has('sm__throughput.avg.pct_of_peak_sustained_elapsed')).toBe(false);
  expect([...launches[1]!.values]).toEqual([['launch__registers_per_thread', 32]]);
  for (const { values } of launches) for (const name of values.keys()) expect(ncuMetrics).toContain(name);
  expect(parseNcu('==PROF== No kernels were profiled.\n')).toEqual([]);
});

it('prints a figure a line, sums, and the longest wait', () => {
  const [first, second] = parseNcu(text).map(profileLines) as [string[], string[]];
  expect(first[0]).toBe('add, grid (128, 1, 1), block (256, 1, 1)');
  expect(first).toContainEqual(expect.stringMatching(/^ {2}duration +1234567 ns {2}at the base clock/));
  expect(first).toContainEqual(expect.stringMatching(/^ {2}DRAM +81\.3 % {2}of the memory's rate/));
  expect(first).toContainEqual(expect.stringMatching(/^ {2}SM +- {2}/));
  expect(first).toContainEqual(expect.stringMatching(/^ {2}bank conflicts +1024 {2}/));
  expect(first.at(-1)).toMatch(
    /^ {2}warps wait +12\.3 cycles {2}an instruction, most of all for loads from global .* \(long_scoreboard\)$/,
  );
  expect(second.at(-1)).toMatch(/^ {2}registers +32 {2}of a thread$/);
});
