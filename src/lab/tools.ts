// Runs the kernel process under NVIDIA's tools ncu (a profiler) and compute-sanitizer (finds errors). Their output goes to the user.
import { gpt2Error } from '../base/errors.ts';
import { findTool } from '../native/nvrtc.ts';
import { KernelProcess } from './kernel-process.ts';
import type { Job } from './messages.ts';
import { jobsOf, type LabOptions, testJobs } from './test-kernels.ts';

const partOf = {
  ncu: 'it is part of Nsight Compute, which comes with the CUDA toolkit',
  'compute-sanitizer': 'it comes with the CUDA toolkit',
};

/** The path of an installed tool of NVIDIA. @throws Gpt2Error if it is missing */
export function labTool(name: keyof typeof partOf): string {
  const found = findTool(name);
  if (found !== undefined) return found;
  throw gpt2Error`${name} is missing: ${partOf[name]}; install it, add its folder to PATH, or set CUDA_HOME`;
}

/** Factor on a kernel's time limit under a tool: ncu repeats a kernel dozens of times, compute-sanitizer is up to 100 times slower. */
const slower = 20;

/** Arguments of ncu: profile only between cuProfilerStart and cuProfilerStop, and leave the GPU's clocks as they are. */
const profile = '--set full --target-processes all --profile-from-start off --clock-control none'.split(' ');

/**
 * Profiles the kernels of a folder with ncu, at each size with which a training step calls their ops.
 * @throws Gpt2Error on a CPU, or if ncu is missing or fails; otherwise as `jobsOf` and `KernelProcess.ask`
 */
export async function profileKernels(options: LabOptions, onLine: (line: string) => void): Promise<void> {
  const { folder, device, seconds } = options;
  if (device.kind === 'cpu') {
    throw gpt2Error`kernel profile measures on a GPU, and the device is cpu: \`npm run gpt2 -- kernel show ${folder} --gpu 9.0\` needs no GPU`;
  }
  const under = [labTool('ncu'), ...profile];
  using listing = new KernelProcess(options);
  const jobs = await jobsOf(listing, options);
  // End the process that listed the cards: the profiled process needs its GPU memory.
  listing.close();
  for (const job of jobs) {
    using child = new KernelProcess({ seconds: seconds * slower, under });
    await child.ask({ ask: 'profile', folder, device, ...job }, (message) => {
      if (message.say !== 'profile') return;
      for (const line of [`${job.op} ${job.dtype}, on ${message.on}`, ...message.calls]) onLine(line);
    });
    // ncu prints its results only after the profiled process has ended.
    const code = await child.ended();
    if (code !== 0) throw gpt2Error`ncu ended with exit code ${code}; its output says why`;
  }
}

const checks = ['memcheck', 'racecheck', 'initcheck'] as const;
/** Hides errors of driver calls, because one error is deliberate: we count a kernel's parameters by asking for one parameter too many. */
const withoutCalls = ['--report-api-errors', 'no'];

/** Tests kernels under memcheck, racecheck and initcheck of compute-sanitizer. @returns the checks that found errors */
export async function sanitize(options: LabOptions, jobs: readonly Job[], onLine: (line: string) => void) {
  const program = labTool('compute-sanitizer');
  const found: string[] = [];
  for (const check of checks) {
    const under = [program, '--tool', check, '--error-exitcode', '1', ...withoutCalls];
    using child = new KernelProcess({ seconds: options.seconds * slower, under });
    onLine(`${check}:`);
    const wrong = await testJobs(child, jobs, options, { once: true, isBrief: true, onLine });
    if ((await child.ended()) !== 0 || wrong.length > 0) found.push(check);
  }
  return found;
}
