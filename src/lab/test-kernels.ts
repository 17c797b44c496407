// Tests the kernels of a folder in the kernel process (child.ts).
import { expected, type Gpt2Error, gpt2Error } from '../base/errors.ts';
import type { Dtype } from '../native/device.ts';
import type { DeviceChoice } from '../native/select-device.ts';
import type { KernelProcess, ProcessSettings } from './kernel-process.ts';
import type { Job, ListedCard } from './messages.ts';
import type { TestedSize } from './test-op.ts';

export interface LabOptions extends ProcessSettings {
  readonly folder: string;
  readonly device: DeviceChoice;
  /** Default: each dtype that a card supports and the device has. */
  readonly dtype?: Dtype;
  /** Number of sequences in the training step whose calls are timed. */
  readonly batch?: number;
}

/** Lists the folder's cards. @throws as `KernelProcess.ask` */
export async function listed(child: KernelProcess, { folder, device }: Pick<LabOptions, 'folder' | 'device'>) {
  let cards: readonly ListedCard[] = [];
  await child.ask({ ask: 'list', folder, device }, (message) => {
    if (message.say === 'list') cards = message.cards;
  });
  return cards;
}

/** The kernels to run: each card in each chosen dtype. @throws Gpt2Error if no card supports the device or the dtype */
export async function jobsOf(child: KernelProcess, { folder, device, dtype }: LabOptions): Promise<readonly Job[]> {
  const cards = await listed(child, { folder, device });
  const jobs = cards.flatMap(({ op, dtypes }) =>
    dtypes.filter((each) => dtype === undefined || each === dtype).map((each) => ({ op, dtype: each })),
  );
  if (jobs.length > 0) return jobs;
  const taken = [...new Set(cards.flatMap((card) => card.takes))];
  const fix =
    dtype === undefined || taken.includes(dtype)
      ? `${device.kind === 'cpu' ? 'on a CPU tensors are fp32: ' : ''}choose another --device`
      : 'add the dtype to the card, or name another with --dtype';
  const wanted = dtype === undefined ? '' : ` in ${dtype}`;
  throw gpt2Error`no kernel of ${folder} can run${wanted} on ${device.kind}, its card takes ${taken.join(', ')}: ${fix}`;
}

/**
 * Reports the dtypes of cards that the CPU cannot run (bf16), and compiles these kernels for a GPU if a compiler is installed.
 * @returns the kernels that do not compile
 */
export async function compileUntested(child: KernelProcess, options: LabOptions, onLine: (line: string) => void) {
  const { folder, device, dtype } = options;
  const wrong: Job[] = [];
  if (device.kind !== 'cpu' || dtype !== undefined) return wrong;
  for (const { op, takes, dtypes } of await listed(child, { folder, device })) {
    for (const each of takes.filter((taken) => !dtypes.includes(taken))) {
      const job = { op, dtype: each };
      const what = `${op} ${each}  is not tested here: on a CPU tensors are fp32; it runs on a GPU`;
      try {
        await child.ask({ ask: 'compile', folder, device, ...job }, (message) => {
          if (message.say !== 'compiled') return;
          onLine(message.compiler === undefined ? what : `${what} (${message.compiler} compiles it)`);
        });
      } catch (error) {
        onLine(`${what}, but does not compile:\n${expected(error).message}`);
        wrong.push(job);
      }
    }
  }
  return wrong;
}

interface Testing {
  readonly allSizes?: boolean;
  /** Call each size once, because a tool such as compute-sanitizer slows kernels. */
  readonly once?: boolean;
  /** Print the number of correct sizes instead of a line for each. */
  readonly isBrief?: boolean;
  readonly onLine: (line: string) => void;
  readonly onSize?: (tested: TestedSize) => void;
  /** Called with the error that ended a kernel's test early. */
  readonly onError?: (error: Gpt2Error) => void;
}

/** Tests kernels one after the other; a crash or a hang ends only that kernel's test. @returns the kernels that are wrong */
export async function testJobs(child: KernelProcess, jobs: readonly Job[], options: LabOptions, testing: Testing) {
  const { folder, device } = options;
  const { allSizes, once, isBrief, onLine, onSize, onError } = testing;
  const wrong: Job[] = [];
  for (const job of jobs) {
    let isRight = true;
    let sizes = 0;
    const name = `${job.op} ${job.dtype}`;
    try {
      await child.ask({ ask: 'test', folder, device, ...job, allSizes, once }, (message) => {
        if (message.say !== 'size') return;
        isRight &&= message.isRight;
        sizes++;
        onSize?.(message);
        if (isBrief && message.isRight) return;
        const [first, ...others] = message.lines;
        for (const line of [`${name}  ${message.sizes}  ${first}`, ...others]) onLine(line);
      });
      if (isBrief && isRight) onLine(`${name}  right at ${sizes} sizes`);
    } catch (caught) {
      const error = expected(caught);
      onLine(error.message);
      onError?.(error);
      isRight = false;
    }
    if (!isRight) wrong.push(job);
  }
  return wrong;
}

/** Kernels as text: "gelu_forward fp32, gelu_backward fp32". */
export const jobsText = (jobs: readonly Job[]): string => jobs.map(({ op, dtype }) => `${op} ${dtype}`).join(', ');
