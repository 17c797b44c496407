// Runs a command of gpt2 while CUPTI records every kernel, copy and fill on the GPUs (timeline.cpp), and prints the time of each
// kernel in rank 0's last whole step: from the end of one gradient norm to the end of the next. OUT/rank-N.tsv keeps all records.
// The run needs some steps, and recording slows them a little: use bench-ranks.ts to measure steps. For systems without nsys.
//   node --import tsx scripts/timeline.ts [--out build/timeline] -- train --batch 64 --steps 40 --val-every 0 --sample-every 0
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { packageRoot } from '../src/base/package-root.ts';
import { toolkits } from '../src/native/nvrtc.ts';
import { formatTable } from '../src/report/format-text.ts';
import { readFlags } from './flags.ts';

/** A table of the kernels of the last whole step of a rank's records: calls and milliseconds, the longest first. */
export function timesByKernel(text: string): string {
  const records = [...text.matchAll(/^(\d+)\t(\d+)\t\d+\t(?:void )?(.*)$/gm)].map(([, start, end, name]) => ({
    ...{ end: BigInt(end!), ns: Number(BigInt(end!) - BigInt(start!)) },
    name: name!.replace(/\((?:[^()]|\([^()]*\))*\)$/, ''),
  }));
  const [from, to] = records.flatMap(({ name, end }) => (name.endsWith('::norm_kernel') ? [end] : [])).slice(-2);
  if (to === undefined) throw new Error('no whole step was recorded: train more steps');
  const times = new Map<string, number[]>();
  for (const { name, end, ns } of records) {
    if (end > from! && end <= to) times.set(name, [...(times.get(name) ?? []), ns / 1e6]);
  }
  const rows = [...times].map(([name, all]) => ({ name, calls: all.length, ms: all.reduce((sum, ms) => sum + ms, 0) }));
  const sorted = rows.sort((a, b) => b.ms - a.ms).map(({ name, calls, ms }) => [name, String(calls), ms.toFixed(3)]);
  return formatTable([[`a step of ${(Number(to - from!) / 1e6).toFixed(3)} ms`, 'calls', 'ms'], ...sorted]);
}

/** Compiles the recorder with the CUPTI of $CUPTI_ROOT or of a CUDA toolkit. @returns its path */
function build(folder: string): string {
  const roots = [process.env.CUPTI_ROOT, ...toolkits()].filter((root) => root !== undefined);
  const find = (...files: string[]) => roots.flatMap((root) => files.map((file) => join(root, file))).find(existsSync);
  const header = find('include/cupti.h', 'extras/CUPTI/include/cupti.h');
  const library = find('lib64/libcupti.so', 'lib/libcupti.so', 'extras/CUPTI/lib64/libcupti.so');
  if (!header || !library) throw new Error(`no cupti.h and libcupti.so in ${roots.join(', ')}: set CUPTI_ROOT`);
  const recorder = join(folder, 'librecord.so');
  const headers = [header, find('include/cuda.h') ?? header].flatMap((path) => ['-isystem', dirname(path)]);
  const flags = ['-std=c++17', '-O2', '-fPIC', '-shared', '-o', recorder, ...headers];
  const source = join(packageRoot, 'scripts/timeline.cpp');
  execFileSync(process.env.CXX || 'c++', [...flags, source, library, `-Wl,-rpath,${dirname(library)}`]);
  return recorder;
}

if (import.meta.url === pathToFileURL(process.argv[1]!).href) {
  const { out, positionals } = readFlags({ out: 'build/timeline' });
  const folder = resolve(out);
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) if (/^rank-\d+\.tsv$/.test(name)) rmSync(join(folder, name));
  const env = { ...process.env, CUDA_INJECTION64_PATH: build(folder), GPT2_TIMELINE: folder };
  const command = ['--import', 'tsx', 'src/cli.ts', ...positionals];
  execFileSync(process.execPath, command, { cwd: packageRoot, env, stdio: 'inherit' });
  const text = readFileSync(join(folder, 'rank-0.tsv'), 'utf8');
  for (const note of text.match(/^# .*/gm) ?? []) console.log(note);
  console.log(timesByKernel(text));
}
