// Compiles CUDA files that have a main function, and runs the program in this terminal: on a GPU (nvcc), or emulated on a CPU.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { gpt2Error, usageError } from '../base/errors.ts';
import {
  compiledProgram,
  functionList,
  functionsOf,
  hasMain,
  nvccFor,
  type ProgramSource,
  programEnvironment,
  readSource,
} from '../ops/kernels/compile.ts';
import { cardFiles } from '../ops/kernels/kernel-card.ts';
import { labTool } from './tools.ts';

export interface RunProgramOptions extends ProgramSource {
  readonly device: 'cuda' | 'cpu';
  readonly args: readonly string[];
  /** Run the program under compute-sanitizer. Refused on a CPU, because the emulator itself checks memory accesses. */
  readonly sanitize?: boolean | undefined;
  /** The blocks whose accesses the emulator checks. Default: all, or a sample in a large launch. Refused on a GPU, as is `everyLaunch`. */
  readonly check?: 'all' | 'none' | undefined;
  /** Emulate every launch. By default a repeated launch copies the earlier results. */
  readonly everyLaunch?: boolean | undefined;
  /** Time limit in seconds. */
  readonly timeLimit?: number | undefined;
  /** Its abort ends the program; the reason of the abort becomes the exit code. */
  readonly signal: AbortSignal;
}

/**
 * @returns the program's exit code; 3 instead of 0 if the emulator found a defect
 * @throws CompileError, also for device code that the emulator does not support; Gpt2Error without a main, or at the time limit
 */
export async function runProgram(options: RunProgramOptions): Promise<number> {
  const { files, device, args, sanitize, check = 'sampled', everyLaunch = false, timeLimit, signal } = options;
  const isOnGpu = nvccFor(device) !== undefined;
  const onlyEmulated = options.check ? `--check ${options.check}` : everyLaunch ? '--every-launch' : undefined;
  if (sanitize && !isOnGpu)
    throw usageError`--sanitize needs a GPU and nvcc, and ${files.join(', ')} runs on the emulator, which checks accesses itself: leave it out`;
  if (onlyEmulated && isOnGpu)
    throw usageError`${onlyEmulated} is an option of the emulator, and ${files.join(', ')} runs on the GPU: add --device cpu, or check the GPU's accesses with --sanitize`;
  // A card's kernels use macros (ELEMENT) that only commands for cards define: explain this before a compile error would.
  const folder = files.map(dirname).find((path) => cardFiles.some((name) => existsSync(join(path, name))));
  if (folder !== undefined && !files.some((file) => hasMain(readSource(file))))
    throw gpt2Error`${files.join(', ')} has no main to run: the card in ${folder} launches its kernels; use kernel test ${folder}`;
  const program = compiledProgram(options, device);
  if (program === undefined) {
    throw gpt2Error`${files.join(', ')} has no main to run (${isOnGpu ? 'nvcc compiles it' : 'it compiles'}); its functions: ${functionList(functionsOf(files))}; add a file with a main that calls them, or test one with kernel test --expect`;
  }
  const under = sanitize ? [labTool('compute-sanitizer'), '--error-exitcode', '3'] : [];
  const [command, ...rest] = [...under, program, ...args] as [string, ...string[]];
  const timeout = Math.min(Math.round((timeLimit ?? 1e6) * 1000), 2 ** 31 - 1);
  const env = programEnvironment(`${check}${everyLaunch ? ' every-launch' : ''}`);
  const child = spawn(command, rest, { stdio: 'inherit', env, signal, timeout, killSignal: 'SIGKILL' });
  const code = await new Promise<number>((done, failed) => {
    child.once('error', (error) => signal.aborted || failed(error));
    child.once('close', (code, name) => done(code ?? 128 + constants.signals[name!]));
  });
  if (signal.aborted) return Number(signal.reason);
  if (child.killed)
    throw gpt2Error`${files[0]} did not end within ${timeLimit} s: give it smaller sizes, or more time with --time-limit`;
  return code;
}
