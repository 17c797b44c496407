// The command's side of the process that runs kernels (child.ts): starts it, sends requests, and ends it when a kernel, a card or
// a compiler hangs, or when something else writes to its channel.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { CompileError, Gpt2Error, orElse } from '../base/errors.ts';
import { isCompiled } from '../base/wording.ts';
import { limits, type Message, type Request } from './messages.ts';

export interface ProcessSettings {
  /** Time limit of a kernel. */
  readonly seconds: number;
  /** Time limits, in seconds, of importing a card and of compiling. Default `limits`. */
  readonly limits?: Record<keyof typeof limits, number>;
  /** Program and arguments that run the process, such as compute-sanitizer. */
  readonly under?: readonly string[];
  /** Called with the milliseconds that compiling and loading a card took. */
  readonly onLoaded?: (ms: number) => void;
}

const program = fileURLToPath(new URL(`./child.${isCompiled ? 'js' : 'ts'}`, import.meta.url));

/** In characters; no message is longer. */
const longestMessage = 16 << 20;

/** Starts the process at the first request, and again at the first request after it died. `using` ends it. */
export class KernelProcess {
  readonly #settings: ProcessSettings;
  #child: ChildProcess | undefined;
  #onMessage: (message: Message) => void = () => {};
  #onEnd: (how: string) => void = () => {};

  constructor(settings: ProcessSettings) {
    this.#settings = settings;
  }

  /**
   * Sends a request, and passes on the process's messages until it is done.
   * @throws CompileError or Gpt2Error with the message of the process; if the process dies; or if a kernel does not end in time
   */
  async ask(request: Request, onMessage: (message: Message) => void): Promise<void> {
    this.#child ??= this.#start();
    const { folder, device } = request;
    // On a CPU the message already names the place.
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
          // A message may have several lines.
          const error = message.isCompile ? new CompileError(folder) : new Gpt2Error(folder);
          error.message = message.isLost ? `${folder}: ${message.message}${advice}` : message.message;
          // The process is ending; the next request starts another.
          if (message.isLost) this.close();
          failed(error);
        } else onMessage(message);
      };
    });
    this.#child.stdin!.write(`${JSON.stringify(request)}\n`);
    await answered.finally(() => clearTimeout(timer));
  }

  /** Waits until the process has ended by itself. @returns its exit code */
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
      // The whole process group, with a compiler that may be running.
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
      // A tool gets Ctrl-C itself: under a tool, the process would not notice that the command ends.
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
        // Fails if another thread wrote into the line.
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
    // Its exit reports the cause of death.
    child.stdin!.on('error', () => {});
    return child;
  }
}
