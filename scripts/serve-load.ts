// Measures what viewers of the live page cost a run: the same run in turn without the page and with it and many viewers, the
// medians of its steps, and their ratio. The viewers are this program, on the same machine.
//   node --import tsx scripts/serve-load.ts --model d12 --batch 64 --seq 1024 --steps 200
//   node --import tsx scripts/serve-load.ts --steps 1000 -- --layers 2 --channels 64 --heads 2     further options of train
import { get } from 'node:http';
import { median } from '../src/bench/timing.ts';
import { readFlags } from './flags.ts';
import { trainSteps } from './train-steps.ts';

const { clients, rounds, steps, positionals, ...passed } = readFlags({
  ...{ clients: 50, rounds: 2, steps: 100 },
  ...{ model: '', data: '', batch: '', seq: '', device: '', threads: '' },
});
const named = Object.entries(passed).flatMap(([name, value]) => (value === '' ? [] : [`--${name}`, value]));

/** Bytes that all streams received: shows that they were read. */
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

/** Milliseconds of a run's steps without the first five, which warm up. */
async function stepsWith(viewers: number): Promise<number[]> {
  const serve = viewers > 0 ? ['--serve', '0'] : [];
  const onLine = (line: string) => {
    const url = /^live page: (\S+)/.exec(line)?.[1];
    if (url) for (let index = 0; index < viewers; index++) view(url);
  };
  return (await trainSteps([...named, ...positionals, ...serve], steps, { onLine })).slice(5);
}

const alone: number[] = [];
const watched: number[] = [];
for (let round = 1; round <= rounds; round++) {
  for (const [times, viewers] of [[alone, 0] as const, [watched, clients] as const]) {
    const ms = await stepsWith(viewers);
    times.push(...ms);
    console.log(`round ${round}, ${viewers} viewers: median step ${median(ms).toFixed(3)} ms of ${ms.length}`);
  }
}
console.log(
  `${clients} viewers (${(received / 2 ** 20).toFixed(1)} MiB sent): ${median(watched).toFixed(3)} ms a step, without ${median(alone).toFixed(3)}: ratio ${(median(watched) / median(alone)).toFixed(4)}`,
);
