// Runs one gpt2 command in a child process. `quickstart` and `train --sweep` consist of several such commands.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { signalOf } from '../program.ts';

/** Whether this process runs for `quickstart` or --sweep. That command then names the next steps, so this process must not. */
export const isPart = (): boolean => process.env.GPT2_PART === '1';

interface ChildOptions {
  /** Its abort ends the child: by the signal for which the reason, an exit code, stands (130: SIGINT), or else by SIGTERM. */
  readonly signal: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
  /** Takes the child's output streams. Without `onOutput`, the child writes to this terminal, including its status line. */
  readonly onOutput?: (stdout: Readable, stderr: Readable) => void;
}

/** Runs `gpt2 ...args` and waits for it. @returns the exit code, or the name of the signal that killed it, or why it did not start */
export async function runPart(args: readonly string[], { signal, env, onOutput }: ChildOptions) {
  const child: ChildProcess = spawn(process.execPath, [...process.execArgv, process.argv[1]!, ...args], {
    stdio: onOutput ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['inherit', 'inherit', 'inherit', 'ipc'],
    // GPT2_LAUNCHED: when this process ends, even killed, the IPC channel closes; the child then saves its run and stops.
    env: { ...process.env, GPT2_LAUNCHED: '1', GPT2_PART: '1', ...env },
  });
  onOutput?.(child.stdout!, child.stderr!);
  const stop = () => void child.kill(signalOf(signal.reason) ?? 'SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  // A second Ctrl-C ends this process at once. Passing the signal on in 'exit' also ends a child that hangs in a kernel.
  process.once('exit', stop);
  try {
    return await new Promise<number | string>((resolve) => {
      child.once('error', ({ message }) => resolve(message));
      child.once('close', (code, by) => resolve(code ?? by!));
    });
  } finally {
    signal.removeEventListener('abort', stop);
    process.off('exit', stop);
  }
}
