// Starts the ranks of a job on this machine, each a process of this program with the same arguments, and forwards signals.
// If a rank fails, the ranks that still run some seconds later are killed.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { ExitError, Gpt2Error, gpt2Error } from '../base/errors.ts';
import { signalOf } from '../base/signals.ts';
import { masterPort } from './place.ts';

/** Time that ranks have to end after one has failed; rank 0 has longer, because it may be writing a checkpoint. */
const graceMilliseconds = 3000;
const rootGraceMilliseconds = 8000;
/** Characters to keep from the end of a rank's standard error (rank 0's is not read). errors.ts cuts a message after 1500 characters. */
const keptCharacters = 1400;

/**
 * Runs `count` ranks until they end. Rank 0 uses this process's standard streams.
 * @param signal aborting it sends a process signal to every rank: SIGINT if `signal.reason` is the exit code 130, for example
 * @throws ExitError if rank 0 ended with an error, which it has printed; otherwise Gpt2Error with the rank that failed and the reason
 */
export async function launchRanks(count: number, signal?: AbortSignal): Promise<void> {
  const port = String(masterPort() ?? (await freePort()));
  const token = process.env.GPT2_JOB_TOKEN || randomBytes(32).toString('hex');
  const ranks = Array.from({ length: count }, (_, rank) => start(rank, count, { port, token }));
  const pass = () => {
    for (const { child } of ranks) child.kill(signalOf(signal?.reason) ?? 'SIGTERM');
  };
  signal?.addEventListener('abort', pass, { once: true });
  // A second process signal ends this process at once. `pass` then signals the ranks again, which ends a rank that hangs in a kernel.
  process.once('exit', pass);
  /** The first rank that failed; the others end because of it. */
  let failed: number | undefined;
  const ends = await Promise.all(
    ranks.map(async ({ exited, closed }, rank) => {
      if ((await exited) !== 0 && failed === undefined) {
        failed = rank;
        for (const [other, { child }] of ranks.entries()) {
          setTimeout(() => child.kill('SIGKILL'), other === 0 ? rootGraceMilliseconds : graceMilliseconds).unref();
        }
      }
      return closed;
    }),
  );
  signal?.removeEventListener('abort', pass);
  process.off('exit', pass);
  if (failed === undefined) return;
  // Rank 0 has printed the reason, unless it was killed.
  const { code: rootCode } = ends[0]!;
  if (rootCode) throw new ExitError(rootCode);
  const { code, signal: by, stderr } = ends[failed]!;
  throw new Gpt2Error(`rank ${failed} ${by ? `was killed by ${by}` : `ended with ${code}`}${stderr && `: ${stderr}`}`);
}

interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last characters of the rank's standard error; empty for rank 0, which shares this process's standard error. */
  readonly stderr: string;
}

function start(rank: number, count: number, { port, token }: { port: string; token: string }) {
  const child: ChildProcess = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    // The channel (ipc) closes when this process ends, even if it is killed; ranks then stop (`stopWithLauncher`).
    stdio: rank === 0 ? ['inherit', 'inherit', 'inherit', 'ipc'] : ['ignore', 'ignore', 'pipe', 'ipc'],
    env: {
      ...process.env,
      ...{ RANK: String(rank), WORLD_SIZE: String(count), LOCAL_RANK: String(rank), LOCAL_WORLD_SIZE: String(count) },
      ...{ MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, GPT2_JOB_TOKEN: token, GPT2_LAUNCHED: '1' },
    },
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-keptCharacters);
  });
  const exited = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('exit', resolve);
  });
  const closed = new Promise<End>((resolve) => {
    child.once('error', ({ message }) => resolve({ code: 1, signal: null, stderr: message }));
    child.once('close', (code, signal) => resolve({ code, signal, stderr: stderr.trim() }));
  });
  return { child, exited, closed };
}

/**
 * Makes this rank save and stop when the launching process ends.
 * @throws Gpt2Error if the launching process has already ended
 */
export function stopWithLauncher(): void {
  if (process.env.GPT2_LAUNCHED !== '1') return;
  // The launcher ended while this program was loading, so 'disconnect' will not be emitted again.
  if (!process.connected) throw gpt2Error`the program that launched this one has ended; start the run again`;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel?.unref();
}

async function freePort(): Promise<number> {
  await using server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as { port: number }).port;
}
