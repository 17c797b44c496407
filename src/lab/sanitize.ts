// Runs the tests of kernels under the tools of NVIDIA's compute-sanitizer.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TemporaryFolder } from '../native/temporary-folder.ts';
import { KernelProcess } from './kernel-process.ts';
import { type Job, type LabOptions, testJobs } from './test-kernels.ts';
import { labTool } from './tools.ts';

const tools = ['memcheck', 'racecheck', 'initcheck'] as const;
/** We count parameters by asking the driver for one more than a kernel has. Its error is no error of the kernel. */
const withoutCalls = ['--report-api-errors', 'no'];
/** Kernels are up to a hundred times slower under a tool. */
const slower = 20;

/** Runs the tests under every tool. @returns whether none found anything */
export async function sanitize(
  options: LabOptions,
  jobs: readonly Job[],
  onLine: (line: string) => void,
): Promise<boolean> {
  const program = labTool('compute-sanitizer');
  using folder = new TemporaryFolder('sanitize');
  let isClean = true;
  for (const tool of tools) {
    const log = join(folder.path, tool);
    const under = [program, '--tool', tool, '--error-exitcode', '1', ...withoutCalls, '--log-file', log];
    using child = new KernelProcess({ seconds: options.seconds * slower, under });
    const lines: string[] = [];
    const wrong = await testJobs(child, jobs, options, { once: true, onLine: (line) => lines.push(line) });
    const code = await child.ended();
    const found = code === 0 && wrong.length === 0;
    isClean &&= found;
    onLine(`${tool}: ${found ? 'finds nothing' : 'finds errors:'}`);
    if (!found) for (const line of [...readLog(log), ...lines]) onLine(`  ${line}`);
  }
  return isClean;
}

/** The tool's own report, without its frame. */
function readLog(path: string): string[] {
  try {
    const lines = readFileSync(path, 'utf8').split('\n');
    return lines.map((line) => line.replace(/^=+ ?/, '').trimEnd()).filter((line) => line !== '');
  } catch {
    return [];
  }
}
