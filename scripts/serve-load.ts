// What viewers of the live page cost a run: the same run in turn without the page and with it and many viewers, the median of its
// steps, and their ratio. The viewers are this program, on the same machine.
//   node --import tsx scripts/serve-load.ts --model d12 --batch 64 --seq 1024 --steps 200
//   node --import tsx scripts/serve-load.ts --steps 1000 -- --layers 2 --channels 64 --heads 2     further options of train
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { readRun } from '../src/index.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: 'string', default: '50' },
    rounds: { type: 'string', default: '2' },
    steps: { type: 'string', default: '100' },
    model: { type: 'string' },
    data: { type: 'string' },
    batch: { type: 'string' },
    seq: { type: 'string' },
    device: { type: 'string' },
    threads: { type: 'string' },
  },
});
const { clients, rounds, ...passed } = values;
const named = Object.entries(passed).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
const options = [...named, ...positionals];
const folder = mkdtempSync(join(tmpdir(), 'gpt2-serve-load-'));

/** Of streams: how many bytes of them came, so that it shows whether they were read. */
let received = 0;

function view(url: string): void {
  const request = get(new URL('/events', url), { agent: false }, (response) => {
    response.on('data', (part: Buffer) => {
      received += part.length;
    });
    response.on('error', () => {});
  });
  request.on('error', () => {});
}

const exitOf = (child: ChildProcess) => new Promise<number | null>((resolve) => child.on('exit', resolve));

/** Milliseconds of the steps of a run, but for the first five: they warm up. */
async function stepsOf(name: string, viewers: number): Promise<number[]> {
  const out = join(folder, name);
  const quiet = ['--val-every', '0', '--sample-every', '0', '--out', out];
  const serve = viewers > 0 ? ['--serve', '0'] : [];
  const args = ['--import', 'tsx', 'src/cli.ts', 'train', ...options, ...quiet, ...serve];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  createInterface(child.stdout).on('line', (line) => {
    const url = /^live page: (\S+)/.exec(line)?.[1];
    if (url) for (let index = 0; index < viewers; index++) view(url);
  });
  const code = await exitOf(child);
  if (code !== 0) throw new Error(`train ended with exit code ${code}`);
  const times = readRun(out).events.flatMap((event) => (event.event === 'train' ? [event.ms] : []));
  rmSync(out, { recursive: true });
  return times.slice(5);
}

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;

const alone: number[] = [];
const watched: number[] = [];
try {
  for (let round = 1; round <= Number(rounds); round++) {
    for (const [times, viewers] of [[alone, 0] as const, [watched, Number(clients)] as const]) {
      const steps = await stepsOf(`run-${round}-${viewers}`, viewers);
      times.push(...steps);
      console.log(`round ${round}, ${viewers} viewers: median step ${median(steps).toFixed(3)} ms of ${steps.length}`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(
  `${clients} viewers (${(received / 2 ** 20).toFixed(1)} MiB sent): ${median(watched).toFixed(3)} ms a step, without ${median(alone).toFixed(3)}: ratio ${(median(watched) / median(alone)).toFixed(4)}`,
);
