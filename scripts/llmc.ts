// Runs a program of llm.c until enough of its steps are timed, then ends it, because it would continue with validation and
// samples.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export type LlmcStep = Readonly<Record<'ms' | 'loss', number>>;

/**
 * The steps that `program` prints, and the peak of its resident memory in MiB.
 * @param isEnough whether the steps so far are enough
 * @throws Error with the program's last output if it ends too early
 */
export async function runLlmc(
  program: string,
  { args = [], cwd, isEnough }: { args?: string[]; cwd: string; isEnough: (steps: readonly LlmcStep[]) => boolean },
): Promise<{ steps: LlmcStep[]; peakMiB: number }> {
  // stdbuf makes the program write to the pipe line by line. It becomes the program by exec, so the child's pid is the program's.
  const child = spawn('stdbuf', ['-oL', program, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'close');
  let complaint = '';
  child.stderr.on('data', (part) => {
    complaint = `${complaint}${part}`.slice(-2000);
  });
  const steps: LlmcStep[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    // The CPU program's "step 3: train loss 5.2 (took 2431.4 ms)", or the CUDA one's "step 3/9 | loss 5.2 (…)| … | 103.1 ms | …".
    const found = /^step +\d+(?:: train loss|\S* \| loss) +(\S+) .*? (\d\S*) ms\b/.exec(line);
    if (!found) {
      complaint = `${complaint}${line}\n`.slice(-2000);
      continue;
    }
    steps.push({ loss: Number(found[1]), ms: Number(found[2]) });
    if (!isEnough(steps)) continue;
    const peakMiB = Number(/VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1024;
    child.kill();
    await exited;
    return { steps, peakMiB };
  }
  await exited;
  throw new Error(`${program} ended after ${steps.length} steps: ${complaint}`);
}
