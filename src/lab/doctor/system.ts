// Checks the machine for `doctor`: Node, operating system, build tools, disk space and write permission.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, statfsSync } from 'node:fs';
import { availableParallelism, freemem, totalmem } from 'node:os';
import { dirname, resolve } from 'node:path';
import { packageDescription } from '../../base/package-root.ts';
import { gib } from '../../model/memory.ts';
import { type Check, failed, ok, warning } from './check.ts';

/** Output of `program --version`; undefined if the program is missing or fails. */
function versionOf(program: string): string | undefined {
  const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8', timeout: 10_000 });
  return status === 0 ? stdout.trim() : undefined;
}

export function checkNode(version = process.versions.node): Check {
  const least = /[\d.]+/.exec(packageDescription().engines.node)![0];
  if (version.localeCompare(least, 'en', { numeric: true }) >= 0) return ok('node', `v${version}`);
  return failed('node', `v${version}, older than ${least}`, `install Node ${least} or later: https://nodejs.org`);
}

export function checkSystem(): Check {
  const { platform, arch } = process;
  const report = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  const { glibcVersionRuntime: glibc } = report.header;
  const found = `${platform} ${arch}${glibc ? `, glibc ${glibc}` : ''}, ${availableParallelism()} cores, ${gib(freemem())} of ${gib(totalmem())} of memory free`;
  if (platform === 'linux') return ok('system', found);
  const fix = 'only Linux is tested: if something fails here, train on Linux (on Windows: in WSL2)';
  return warning('system', found, fix);
}

/** Checks the tools that build the libraries. A missing tool is no fault if the tool's library is already built. */
export function checkTools({ cpuIsBuilt, cudaIsBuilt }: { cpuIsBuilt: boolean; cudaIsBuilt: boolean }): Check[] {
  const tool = (name: string, program: string, isNeeded: boolean, fix: string): Check => {
    const found = versionOf(program)?.split('\n')[0];
    if (found !== undefined) return ok(name, found);
    if (isNeeded) return failed(name, `no ${program}`, fix);
    return ok(name, `no ${program}, and nothing left to build`);
  };
  const compiler = process.env.CXX ?? 'c++';
  const install = (what: string) => `apt install ${what} (or what your system calls it)`;
  return [
    tool('compiler', compiler, !cpuIsBuilt, install('g++')),
    tool('cmake', 'cmake', !cpuIsBuilt, install('cmake')),
    checkNvcc(cudaIsBuilt),
  ];
}

function checkNvcc(cudaIsBuilt: boolean): Check {
  const version = versionOf('nvcc') ?? versionOf('/usr/local/cuda/bin/nvcc');
  if (version === undefined) return ok('nvcc', 'not installed; only building the CUDA library needs it');
  const release = /release [\d.]+/.exec(version)?.[0] ?? 'nvcc';
  if (cudaIsBuilt) return ok('nvcc', release);
  return warning('nvcc', `${release}, and no CUDA library yet`, 'npm run build:cuda');
}

/** Checks free disk space and write permission for a folder of runs or data. The folder may not exist yet. */
export function checkFolder(folder: string): Check {
  // Check the nearest existing parent, in which the folder will be created.
  let there = resolve(folder);
  while (!existsSync(there)) there = dirname(there);
  const { bavail, bsize } = statfsSync(there);
  const free = bavail * bsize;
  const found = `${resolve(folder)}: ${gib(free)} free`;
  try {
    accessSync(there, constants.W_OK);
  } catch {
    const fix = 'work in a folder of yours: cd ~/…, or name one with --out';
    return failed(`folder ${folder}`, `${there} cannot be written`, fix);
  }
  // 3 GB hold two checkpoints of GPT-2 124M: a new one is written completely before the previous one is removed.
  if (free < 3e9) return warning(`folder ${folder}`, found, 'make room: two checkpoints of GPT-2 124M take 3 GB');
  return ok(`folder ${folder}`, found);
}
