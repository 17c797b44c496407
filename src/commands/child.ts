// Runs one gpt2 command in a child process. `quickstart` and `train --sweep` consist of several such commands.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { signalOf } from '../program.ts';

/** Whether `quickstart` or `train --sweep` started this process. These commands suggest the next commands, so this process must not. */
export const isPart = (): boolean => process.env.GPT2_PART === '1';

interface ChildOptions {
  /** Its abort sends a signal to the child: the signal that belongs to the abort's reason, an exit code (130: SIGINT), else SIGTERM. */
  readonly signal: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
  /** Called with the child's output streams. Without `onOutput`, the child uses this terminal, and shows a status line in it. */
  readonly onOutput?: (stdout: Readable, stderr: Readable) => void;
}

/** Runs `gpt2 ...args` to its end. @returns the child's exit code, the signal that killed it, or why it could not be started */
export async function runPart(args: readonly string[], { signal, env, onOutput }: ChildOptions) {
  const child: ChildProcess = spawn(process.execPath, [...process.execArgv, process.argv[1]!, ...args], {
    stdio: onOutput ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['inherit', 'inherit', 'inherit', 'ipc'],
    // With GPT2_LAUNCHED the child watches the IPC channel, which closes when this process ends: the child then saves and stops.
    env: { ...process.env, GPT2_LAUNCHED: '1', GPT2_PART: '1', ...env },
  });
  onOutput?.(child.stdout!, child.stderr!);
  const stop = () => void child.kill(signalOf(signal.reason) ?? 'SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  // A second Ctrl-C ends this process at once. On 'exit' the child gets a second signal too, which ends even a hanging kernel.
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
