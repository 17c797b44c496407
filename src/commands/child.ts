// Runs a command of this program in a child process, for commands that consist of others: --sweep and quickstart.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { signalOf } from '../program.ts';

/** Whether this process is a part of such a command, which says what comes next. */
export const isPart = (): boolean => process.env.GPT2_PART === '1';

interface ChildOptions {
  /** Stops the child; its reason is an exit code. */
  readonly signal: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
  /** Takes the child's output; without it, the child writes to this terminal, with its status line. */
  readonly onOutput?: (stdout: Readable, stderr: Readable) => void;
}

/** Runs `gpt2 ...args`. @returns its exit code, or the signal that killed it, or why it did not start */
export async function runPart(args: readonly string[], { signal, env, onOutput }: ChildOptions) {
  const child: ChildProcess = spawn(process.execPath, [...process.execArgv, process.argv[1]!, ...args], {
    stdio: onOutput ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['inherit', 'inherit', 'inherit', 'ipc'],
    // The channel closes when this process ends, even if it is killed: the child then saves and stops.
    env: { ...process.env, GPT2_LAUNCHED: '1', GPT2_PART: '1', ...env },
  });
  onOutput?.(child.stdout!, child.stderr!);
  const stop = () => void child.kill(signalOf(signal.reason) ?? 'SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  // A second signal ends this process at once; passed on, it also ends a child that hangs in a kernel.
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
