// Starts the kernel process (child.ts) for a command, sends it requests, and kills it if a kernel, a card or a compiler exceeds its
// time limit, or if anything but messages arrives on the channel (the child's file descriptor 3).
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { CompileError, Gpt2Error, orElse } from '../base/errors.ts';
import { isCompiled } from '../base/wording.ts';
import { limits, type Message, type Request } from './messages.ts';

export interface ProcessSettings {
  /** Time limit of each kernel. */
  readonly seconds: number;
  /** Time limits in seconds of importing a card and of compiling it. Default: `limits` of messages.ts. */
  readonly limits?: Record<keyof typeof limits, number>;
  /** A program, with its arguments, that runs the kernel process: compute-sanitizer or ncu. */
  readonly under?: readonly string[];
  /** Called when a card is compiled and loaded, with the milliseconds of both together. */
  readonly onLoaded?: (ms: number) => void;
}

const program = fileURLToPath(new URL(`./child.${isCompiled ? 'js' : 'ts'}`, import.meta.url));

/** Most characters of a message. A longer line cannot be a message, so the kernel process is killed. */
const longestMessage = 16 << 20;

/** A kernel process. It starts at the first request, and after its death again at the next request. `using` kills it. */
export class KernelProcess {
  readonly #settings: ProcessSettings;
  #child: ChildProcess | undefined;
  #onMessage: (message: Message) => void = () => {};
  #onEnd: (how: string) => void = () => {};

  constructor(settings: ProcessSettings) {
    this.#settings = settings;
  }

  /**
   * Sends a request to the kernel process, and calls `onMessage` with its messages until the request is done.
   * @throws CompileError or Gpt2Error if the process reports a failure or dies, or if a kernel exceeds its time limit
   */
  async ask(request: Request, onMessage: (message: Message) => void): Promise<void> {
    this.#child ??= this.#start();
    const { folder, device } = request;
    // On a CPU the message needs no advice: the emulator names the source line.
    const finds = `; \`npm run gpt2 -- kernel test ${folder} --sanitize\` or \`--device cpu\` finds where`;
    const advice = device.kind === 'cuda' ? finds : '';
    let kernel: string | undefined;
    let timer: NodeJS.Timeout | undefined;
    const answered = new Promise<void>((done, failed) => {
      const refuse = (why: string) => failed(new Gpt2Error(why));
      const endAfter = (seconds: number, what: string, advice: string) => {
        timer = setTimeout(() => {
          this.close();
          refuse(`${what} of ${folder} did not end within ${seconds} s: ${advice}`);
        }, seconds * 1000);
      };
      this.#onEnd = (how) => {
        const where = kernel === undefined ? '' : ` while the kernel ${kernel} ran`;
        refuse(`${folder}: the process for kernels ${how}${where}${advice}`);
      };
      this.#onMessage = (message) => {
        clearTimeout(timer);
        if (message.say === 'running') {
          kernel = message.kernel;
          const advice = 'look for a loop or a barrier that it cannot leave, or give a longer --time-limit';
          endAfter(this.#settings.seconds, `the kernel ${kernel}`, advice);
        } else if (message.say === 'begins') {
          const seconds = (this.#settings.limits ?? limits)[message.what];
          endAfter(seconds, message.what, 'look for what it waits for, or for a loop that does not end');
        } else if (message.say === 'done') done();
        else if (message.say === 'loaded') this.#settings.onLoaded?.(message.ms);
        else if (message.say === 'failed') {
          // Set the message later: the constructor accepts only one line, and this message may have several.
          const error = message.isCompile ? new CompileError(folder) : new Gpt2Error(folder);
          error.message = message.isLost ? `${folder}: ${message.message}${advice}` : message.message;
          // The kernel process exits after losing its device, so forget it: the next request starts another one.
          if (message.isLost) this.close();
          failed(error);
        } else onMessage(message);
      };
    });
    this.#child.stdin!.write(`${JSON.stringify(request)}\n`);
    await answered.finally(() => clearTimeout(timer));
  }

  /** Closes stdin, and waits until the process exits by itself. @returns its exit code; null if a signal ended it */
  async ended(): Promise<number | null> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || child.exitCode !== null) return child?.exitCode ?? null;
    this.#onEnd = () => {};
    child.stdin!.end();
    return new Promise((done) => child.once('exit', done));
  }

  close(): void {
    this.#onEnd = () => {};
    const child = this.#child;
    this.#child = undefined;
    try {
      // Kill the whole process group, because a compiler may be running.
      if (child?.pid && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    } catch {
      child!.kill('SIGKILL');
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #start(): ChildProcess {
    const [command, ...before] = this.#settings.under ?? [];
    const token = randomUUID();
    const args = [...process.execArgv, program, token];
    const child = spawn(command ?? process.execPath, command ? [...before, process.execPath, ...args] : args, {
      stdio: ['pipe', 'inherit', 'inherit', 'pipe'],
      // Without a tool, detach the child: it then leads a process group. A tool such as ncu must stay in ours, to get Ctrl-C.
      detached: command === undefined,
    });
    const isCurrent = () => this.#child === child;
    const ended = (how: string) => {
      if (!isCurrent()) return;
      this.#child = undefined;
      this.#onEnd(how);
    };
    let text = '';
    (child.stdio[3] as Readable).setEncoding('utf8').on('data', (part: string) => {
      const lines = part.split('\n');
      lines[0] = text + lines[0];
      text = lines.pop()!;
      if (text.length > longestMessage) lines.push(text);
      for (const line of lines) {
        if (!isCurrent()) return;
        // The line is no JSON if the card's code wrote to the channel in the middle of a message.
        const parsed = orElse(undefined, () => JSON.parse(line.slice(token.length)) as Message);
        if (parsed && line.startsWith(token)) {
          this.#onMessage(parsed);
          continue;
        }
        const onEnd = this.#onEnd;
        this.close();
        onEnd(`was ended, because something else wrote ${JSON.stringify(line.slice(0, 60))} to its descriptor 3`);
      }
    });
    child.on('error', ({ message }) => ended(`cannot be started: ${message}`));
    child.on('close', (code, signal) => ended(signal ? `was ended by ${signal}` : `ended with exit code ${code}`));
    // A write to a dead process also emits an error here; the 'close' event above reports the cause.
    child.stdin!.on('error', () => {});
    return child;
  }
}
