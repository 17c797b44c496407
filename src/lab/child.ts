// The process in which `kernel test`, `bench`, `watch` and `profile` run kernels, so that a crash or a hang does not end the command.
// Between requests the device stays open, and a test's inputs and expected results are kept. Requests come on stdin. Messages go to
// file descriptor 3, because kernels may print to stdout.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';
import { CompileError, Gpt2Error, NativeError } from '../base/errors.ts';
import { Device, type Dtype, elementTypesOf } from '../native/device.ts';
import type { DeviceChoice } from '../native/select-device.ts';
import { type Tensor, tensorOf } from '../native/tensor.ts';
import type { OpCases } from '../ops/cases/op-case.ts';
import { cardHash } from '../ops/kernels/card-hash.ts';
import { compiledFile } from '../ops/kernels/compile.ts';
import { anyCompiler } from '../ops/kernels/compiler.ts';
import { type LoadedCard, loadCards } from '../ops/kernels/kernel-card.ts';
import { cardSource, useCards } from '../ops/kernels/use-cards.ts';
import { benchOp } from './bench-op.ts';
import type { Message, Request } from './messages.ts';
import { casesNamed } from './ops.ts';
import { profileOp } from './profile-op.ts';
import { stepCalls } from './step-calls.ts';
import { testOp } from './test-op.ts';

// A kernel may block the main thread forever, so a second thread ends this process when its parent, the command, is gone. The signal
// goes to the process group: a running compiler ends too. Under a tool (ncu) this process leads no group and is killed alone.
const watch = `setInterval(() => {
  if (process.ppid === require('worker_threads').workerData) return;
  try {
    process.kill(-process.pid, 'SIGKILL');
  } catch {
    process.kill(process.pid, 'SIGKILL');
  }
}, 500)`;
new Worker(watch, { eval: true, workerData: process.ppid }).unref();

const say = (message: Message): void => void writeSync(3, `${process.argv.at(-1)}${JSON.stringify(message)}\n`);

/** Open devices, each with a tensor of one element: reading the element waits until all earlier work on the device has ended. */
const devices = new Map<string, { readonly device: Device; readonly number: Tensor }>();
/** The device of the current request. */
let used: Device | undefined;
/** Names of the kernels that have run since the last `idle` message, the latest last. */
const running = new Set<string>();

function idle(): void {
  running.clear();
  say({ say: 'idle' });
}

function opened(choice: DeviceChoice, dtype: Dtype) {
  const key = JSON.stringify([choice, dtype]);
  let known = devices.get(key);
  if (!known) {
    const device = Device.open({ ...choice, dtype });
    known = { device, number: tensorOf(device, new Float32Array(1)) };
    devices.set(key, known);
  }
  used = known.device;
  return known;
}

/** The cases of each op. A case's formula first sends `idle`, because the formula may run longer than a kernel's time limit. */
const timed = new Map<OpCases, OpCases>();
function timedCases(op: string): OpCases {
  const cases = casesNamed(op);
  const formula: OpCases['formula'] = (...args) => {
    idle();
    return cases.formula(...args);
  };
  const wrapped = timed.get(cases) ?? { ...cases, formula };
  timed.set(cases, wrapped);
  return wrapped;
}

async function answer(request: Request): Promise<void> {
  const { ask, folder, device: choice } = request;
  say({ say: 'begins', what: 'importing the card' });
  const cards = await loadCards(folder);
  idle();
  if (ask === 'list') {
    const { library: kind, dtypes: own } = opened(choice, 'fp32').device.description;
    // A bf16 kernel needs bf16 tensors. On a CPU all tensors are fp32, even if the CPU's dtype is bf16: leave out bf16 there.
    const runs = own.filter((dtype) => dtype !== 'bf16' || elementTypesOf({ kind, dtype }).elementType === dtype);
    return say({
      say: 'list',
      cards: cards.map((card) => {
        const { op, source, dtypes: takes = ['fp32'] } = card;
        return { op, source, hash: cardHash(card), takes, dtypes: takes.filter((each) => runs.includes(each)) };
      }),
    });
  }
  const { op, dtype } = request;
  const card = cards.find((each) => each.op === op);
  if (!card) throw new Gpt2Error(`the card of ${folder} has no ${op} any more`);
  if (ask === 'compile') {
    say({ say: 'begins', what: 'compiling the kernels' });
    return say({ say: 'compiled', compiler: compileForGpu(card, dtype) });
  }
  const cases = timedCases(op);
  const { device, number } = opened(choice, dtype);
  let launched = 0;
  const onLaunch = (kernel: string) => {
    launched++;
    // Wait until the previous kernel has ended, so that its failure or hang is not blamed on `kernel`. A bench must not wait.
    if (ask !== 'bench') number.read();
    if (ask === 'bench' && running.has(kernel)) return;
    running.delete(kernel);
    running.add(kernel);
    say({ say: 'running', kernel });
  };
  const step = ask === 'test' ? undefined : await stepCalls(device, request.batch);
  const begin = performance.now();
  say({ say: 'begins', what: 'compiling the kernels' });
  await useCards(device, [card], { onLaunch, checks: ask === 'test' });
  say({ say: 'loaded', ms: performance.now() - begin });
  if (step) {
    const { device: name, codePath } = device.description;
    const on = `${name} (${codePath})`;
    if (ask === 'profile') {
      return say({ say: 'profile', on, calls: await profileOp(device, cases.variant, step.calls, () => launched) });
    }
    const isBrief = ask === 'bench' && request.isBrief;
    const gpu = choice.kind === 'cuda' && !isBrief ? choice.index : undefined;
    const benched = await benchOp(device, cases, step, { gpu, onIdle: idle, isBrief });
    return say({ say: 'bench', hash: cardHash(card), on, ...benched });
  }
  for await (const tested of testOp(device, cases, ask === 'test' ? request : {})) {
    running.clear();
    say({ say: 'size', ...tested });
  }
}

/** Compiles a card's kernels for a GPU. @returns the compiler's name; undefined if no compiler is installed @throws CompileError */
function compileForGpu(card: LoadedCard, dtype: Dtype): string | undefined {
  const compiler = anyCompiler();
  // Compile for compute capability 9.0 (Hopper), which has bf16 and the instructions that some of our kernels use.
  if (compiler) compiledFile(cardSource(card, elementTypesOf({ kind: 'cuda', dtype })), '9.0');
  return compiler?.name;
}

/** The error that was thrown first. After a device failure freeing memory fails too, and the later error wraps the first. */
function firstError(thrown: unknown): unknown {
  let error = thrown;
  while (error instanceof Error && 'suppressed' in error) error = error.suppressed;
  return error;
}

for await (const line of createInterface({ input: process.stdin })) {
  running.clear();
  used = undefined;
  try {
    await answer(JSON.parse(line) as Request);
    say({ say: 'done' });
  } catch (thrown) {
    const error = firstError(thrown);
    const isLost = (used as Device | undefined)?.hasFailed === true;
    const kernel = [...running].at(-1);
    let { message } = error as Error;
    if (isLost && kernel !== undefined && error instanceof NativeError) {
      message = `the kernel ${kernel} failed: ${error.detail.replace(`${kernel}: `, '')}`;
    }
    // Any other error was thrown by the card's code, whose author needs the stack.
    else if (!(error instanceof Gpt2Error)) message = (error as Error).stack!;
    say({ say: 'failed', message, isCompile: error instanceof CompileError, isLost });
    if (isLost) process.exit(1);
  }
}
process.exit(0);
