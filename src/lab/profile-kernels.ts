// Profiles the kernels of a folder: runs them under NVIDIA's ncu, and says what it measured.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import { TemporaryFolder } from '../native/temporary-folder.ts';
import { KernelProcess } from './kernel-process.ts';
import type { Message } from './messages.ts';
import { ncuFailure, ncuOptions, parseNcu, profileTable } from './ncu.ts';
import { type Job, jobsOf, type LabOptions } from './test-kernels.ts';
import { labTool } from './tools.ts';

/** ncu runs each kernel about nine times, and saves and restores what it writes. */
const slower = 20;

/** @throws Gpt2Error on a CPU; if ncu is missing or fails; otherwise as `jobsOf` and `KernelProcess.ask` */
export async function profileKernels(options: LabOptions, onLine: (line: string) => void): Promise<void> {
  const { folder, device } = options;
  if (device.kind === 'cpu') {
    throw new Gpt2Error(
      `kernel profile measures on a GPU, and the device is cpu: \`npm run gpt2 -- kernel show ${folder} --gpu 9.0\` needs no GPU`,
    );
  }
  const program = labTool('ncu');
  using child = new KernelProcess(options);
  const jobs = await jobsOf(child, options);
  // Its device would take memory from the profiled process.
  child.close();
  for (const job of jobs) for (const line of await profile(program, options, job)) onLine(line);
}

async function profile(program: string, { folder, device, seconds }: LabOptions, job: Job): Promise<readonly string[]> {
  const name = `${job.op} ${job.dtype}`;
  using logs = new TemporaryFolder('profile');
  const log = join(logs.path, 'ncu');
  const readLog = () => (existsSync(log) ? readFileSync(log, 'utf8') : '');
  using child = new KernelProcess({ seconds: seconds * slower, under: [program, ...ncuOptions, '--log-file', log] });
  let ran: Extract<Message, { say: 'profile' }> | undefined;
  try {
    await child.ask({ ask: 'profile', folder, device, ...job }, (message) => {
      if (message.say === 'profile') ran = message;
    });
  } catch (error) {
    // A failure of ncu may end the process.
    const why = ncuFailure(readLog());
    throw why !== undefined && error instanceof Gpt2Error ? error.with({ advice: why }) : error;
  }
  // ncu writes its results when the process has ended.
  const code = await child.ended();
  const text = readLog();
  const launches = [...parseNcu(text)];
  const { calls, on } = ran!;
  const count = calls.reduce((sum, call) => sum + call.launches, 0);
  if (launches.length !== count) {
    const why = ncuFailure(text) ?? `it ended with exit code ${code}; try another version of Nsight Compute`;
    throw new Gpt2Error(`ncu measured ${launches.length} of the ${count} launches of ${name} in ${folder}: ${why}`);
  }
  const titles = calls.flatMap((call) =>
    launches.splice(0, call.launches).map((launch) => {
      const { kernel, grid, block } = launch;
      const times = `${call.calls} ${call.calls === 1 ? 'call' : 'calls'} a step`;
      return { launch, title: `${call.sizes}, ${times}: ${kernel}, grid ${grid}, block ${block}` };
    }),
  );
  return [
    `${name}, on ${on}`,
    ...titles.map(({ title }, index) => `  ${index + 1}: ${title}`),
    ...profileTable(titles.map(({ launch }) => launch)).map((line) => `  ${line}`),
  ];
}
