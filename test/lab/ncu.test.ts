// Reads the log of ncu. The rows are of an H100, fewer than there were.
import { expect, it } from 'vitest';
import { ncuFailure, ncuOptions, parseNcu, profileTable } from '../../src/lab/ncu.ts';

const head =
  '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"';
const row = (id: number, grid: number, metric: string, unit: string, value: string, kernel = sum) =>
  `"${id}","920","node","127.0.0.1","${kernel}","1","14","(256, 1, 1)","(${grid}, 1, 1)","0","9.0","Command line profiler metrics","${metric}","${unit}","${value}"`;
const sum = 'sum(float *, const float *, int)';
const stall = (reason: string) => `smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio`;
const conflicts = 'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op';
const before = `==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, profiling results may be inconsistent.
==PROF== Connected to process 920 (node)
`;
const log = `${before}${head}
${row(1, 62501, 'dram__throughput.avg.pct_of_peak_sustained_elapsed', '%', '0.08')}
${row(1, 62501, 'gpu__time_duration.sum', 'ns', '28,076,992')}
${row(1, 62501, `${conflicts}_ld.sum`, '', '0')}
${row(1, 62501, `${conflicts}_st.sum`, '', '0')}
${row(1, 62501, 'launch__registers_per_thread', 'register/thread', '16')}
${row(1, 62501, stall('lg_throttle'), 'inst', '124.26')}
${row(1, 62501, stall('long_scoreboard'), 'inst', '11,426.55')}
${row(1, 62501, stall('short_scoreboard'), 'inst', '11,849.19')}
${row(8, 62501, 'dram__throughput.avg.pct_of_peak_sustained_elapsed', '%', '34.81')}
${row(8, 62501, 'gpu__time_duration.sum', 'ns', '74,624')}
${row(8, 62501, `${conflicts}_ld.sum`, '', '44,449')}
${row(8, 62501, `${conflicts}_st.sum`, '', '39,256')}
${row(8, 62501, stall('barrier'), 'inst', '4.47')}
${row(8, 62501, stall('long_scoreboard'), 'inst', '10.62')}
${row(8, 62501, stall('short_scoreboard'), 'inst', '8.02')}
==PROF== Disconnected from process 920
`;

it('reads launches and their metrics', () => {
  const launches = parseNcu(log);
  expect(launches.map(({ kernel, grid, block, values }) => [kernel, grid, block, values.size])).toEqual([
    ['sum', '(62501, 1, 1)', '(256, 1, 1)', 8],
    ['sum', '(62501, 1, 1)', '(256, 1, 1)', 7],
  ]);
  expect(launches[0]!.values.get('gpu__time_duration.sum')).toBe(28_076_992);
  const asked = ncuOptions.at(-1)!.split(',');
  for (const { values } of launches) for (const name of values.keys()) expect(asked).toContain(name);
});

it('reads the names of templates, and leaves out what a GPU lacks', () => {
  const kernel = 'void scale<float, (int)256>(float *)';
  const [launch] = parseNcu(`${head}\n${row(0, 1, stall('wait'), '', 'n/a', kernel)}\n`);
  expect(launch).toMatchObject({ kernel: 'scale<float, (int)256>', values: new Map() });
  expect(parseNcu('==WARNING== No kernels were profiled.\n')).toEqual([]);
});

it('prints a row for a figure, a column for a launch, and the longest waits', () => {
  const lines = profileTable(parseNcu(log));
  expect(lines[0]).toMatch(/^ +1 +2$/);
  expect(lines).toContainEqual(expect.stringMatching(/^duration, ms +28\.1 +0\.0746 {2}of the launch, /));
  expect(lines).toContainEqual(expect.stringMatching(/^DRAM, % +0\.08 +34\.8 {2}of the memory's rate; /));
  expect(lines).toContainEqual(expect.stringMatching(/^SM, % +- +- {2}of /));
  // 83,705 of 62,501 blocks of 8 warps.
  expect(lines).toContainEqual(expect.stringMatching(/^conflicts a warp +0 +0\.167 {2}extra cycles /));
  expect(lines).toContainEqual(expect.stringMatching(/^registers +16 +- {2}of a thread; 255 at most$/));
  expect(lines.slice(-2)).toEqual([
    expect.stringMatching(
      /^short_scoreboard +11849 +8\.02 {2}cycles an instruction that a warp waits for shared memory/,
    ),
    expect.stringMatching(/^long_scoreboard +11427 +10\.6 {2}cycles an instruction that a warp waits for loads /),
  ]);
  // What each means begins in one column.
  const figures = lines.slice(1).map((line) => /^.*?\d {2}(?=[a-z])|^.*- {2}/.exec(line)![0].length);
  expect(new Set(figures).size).toBe(1);
});

it('says why ncu failed', () => {
  const denied =
    'ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0. For instructions on enabling permissions and to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM';
  expect(ncuFailure(`${before}==ERROR== ${denied}\n`)).toMatch(/^this user may not read .*: run the command as root, /);
  const failed = `==PROF== Trying to shutdown target application
==ERROR== Failed to profile "sum" in process 920
==ERROR== An error occurred while trying to profile.
`;
  expect(ncuFailure(before + failed)).toBe(
    'ncu says: Failed to profile "sum" in process 920 An error occurred while trying to profile.',
  );
  expect(ncuFailure(log)).toBeUndefined();
});
