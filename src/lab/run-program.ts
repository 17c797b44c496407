// Runs the main of CUDA files in a separate process, in this terminal: on a GPU, compiled by nvcc, or emulated on a CPU.
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
  /** Under compute-sanitizer; refused on a CPU, where the emulator checks. */
  readonly sanitize?: boolean | undefined;
  /** The blocks whose accesses the emulator checks; default: samples of large launches. Refused on a GPU, as everyLaunch. */
  readonly check?: 'all' | 'none' | undefined;
  /** Emulate also launches that would change nothing. */
  readonly everyLaunch?: boolean | undefined;
  /** In seconds. */
  readonly timeLimit?: number | undefined;
  /** Ends the program; the reason of the abort is the exit code. */
  readonly signal: AbortSignal;
}

/**
 * @returns the program's exit code; 3 if that is 0 but the emulator found a defect
 * @throws CompileError, also for code that a CPU does not run; Gpt2Error if the files have no main, or at the time limit
 */
export async function runProgram(options: RunProgramOptions): Promise<number> {
  const { files, device, args, sanitize, check = 'sampled', everyLaunch = false, timeLimit, signal } = options;
  const isOnGpu = nvccFor(device) !== undefined;
  const onlyEmulated = options.check ? `--check ${options.check}` : everyLaunch ? '--every-launch' : undefined;
  if (sanitize && !isOnGpu)
    throw usageError`--sanitize needs a GPU and nvcc, and ${files.join(', ')} runs on the emulator, which checks accesses itself: leave it out`;
  if (onlyEmulated && isOnGpu)
    throw usageError`${onlyEmulated} is an option of the emulator, and ${files.join(', ')} runs on the GPU: add --device cpu, or check the GPU's accesses with --sanitize`;
  // Kernels of a card use macros such as ELEMENT, which only the lab defines.
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
