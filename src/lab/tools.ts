// Runs kernels under NVIDIA's programs and passes their output to the user: ncu measures, compute-sanitizer looks for errors.
import { gpt2Error } from '../base/errors.ts';
import { findTool } from '../native/nvrtc.ts';
import { KernelProcess } from './kernel-process.ts';
import type { Job } from './messages.ts';
import { jobsOf, type LabOptions, testJobs } from './test-kernels.ts';

const partOf = {
  ncu: 'it is part of Nsight Compute, which comes with the CUDA toolkit',
  'compute-sanitizer': 'it comes with the CUDA toolkit',
};

/** @returns the tool's path @throws Gpt2Error if it is not installed */
export function labTool(name: keyof typeof partOf): string {
  const found = findTool(name);
  if (found !== undefined) return found;
  throw gpt2Error`${name} is missing: ${partOf[name]}; install it, add its folder to PATH, or set CUDA_HOME`;
}

/** ncu runs each kernel dozens of times; under compute-sanitizer a kernel is up to a hundred times slower. */
const slower = 20;

/** Measures the kernels between cuProfilerStart and cuProfilerStop, without changing the GPU's clocks. */
const profile = '--set full --target-processes all --profile-from-start off --clock-control none'.split(' ');

/**
 * Profiles the cards of a folder, each at the sizes of a training step.
 * @throws Gpt2Error on a CPU; if ncu is missing or fails; otherwise as `jobsOf` and `KernelProcess.ask`
 */
export async function profileKernels(options: LabOptions, onLine: (line: string) => void): Promise<void> {
  const { folder, device, seconds } = options;
  if (device.kind === 'cpu') {
    throw gpt2Error`kernel profile measures on a GPU, and the device is cpu: \`npm run gpt2 -- kernel show ${folder} --gpu 9.0\` needs no GPU`;
  }
  const under = [labTool('ncu'), ...profile];
  using listing = new KernelProcess(options);
  const jobs = await jobsOf(listing, options);
  // Its device would take memory from the profiled process.
  listing.close();
  for (const job of jobs) {
    using child = new KernelProcess({ seconds: seconds * slower, under });
    await child.ask({ ask: 'profile', folder, device, ...job }, (message) => {
      if (message.say !== 'profile') return;
      for (const line of [`${job.op} ${job.dtype}, on ${message.on}`, ...message.calls]) onLine(line);
    });
    // ncu prints its results after the process has ended.
    const code = await child.ended();
    if (code !== 0) throw gpt2Error`ncu ended with exit code ${code}; its output says why`;
  }
}

const checks = ['memcheck', 'racecheck', 'initcheck'] as const;
/**
 * We find the number of a kernel's parameters by asking the driver for one more; the resulting error is no error of the kernel.
 */
const withoutCalls = ['--report-api-errors', 'no'];

/** Tests cards under every check of compute-sanitizer. @returns the checks that found errors */
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
