// A program that trains with a schedule, an optimizer, batches and a validation of its own, alone or as one of several ranks:
// `program-run.ts '{"out":"runs/a", ...}'`, options of `train` besides. Some targets are -1, so that micro-batches differ in theirs.
import { AdamW, type Batches, type ProgramOptions, placeFromEnvironment, train } from '../../src/index.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { tinySizes } from './tiny-run.ts';

const sequence = 32;

/** Sequences in an order that depends only on how many a step has; `position` is the number of micro-batches read. */
function sequencesOf(batch: number, { rank, ranks }: { rank: number; ranks: number }, pause = 0): Batches {
  let read = 0;
  return {
    position: () => ({ read }),
    seek(position: { read: number }) {
      ({ read } = position);
    },
    next() {
      if (pause > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
      const first = (read++ * ranks + rank) * batch;
      const rows = Array.from({ length: batch }, (_, row) => {
        const random = new Random(first + row + 1);
        const tokens = random.integers(sequence + 1, 100);
        const length = (11 * (first + row)) % (sequence + 1);
        return { inputs: tokens.slice(0, -1), targets: tokens.slice(1).map((id, at) => (at < length ? id : -1)) };
      });
      const joined = (name: 'inputs' | 'targets') => Int32Array.from(rows.flatMap((row) => [...row[name]]));
      return { inputs: joined('inputs'), targets: joined('targets') };
    },
  };
}

const { pause, ...options } = JSON.parse(process.argv[2]!) as ProgramOptions & { batch: number; pause?: number };
const { batch } = options;
const common: ProgramOptions = {
  ...{ device: 'cpu', threads: 1, ...tinySizes, sequence, totalBatch: 4 * sequence },
  ...{ sampleEvery: 0, valEvery: 5, valSteps: 2 },
  schedule: (step) => 1e-3 / (1 + step / 50),
  optimizer: new AdamW({ weightDecay: 0.05, beta2: 0.99 }),
  batches: (place) => sequencesOf(batch, place, pause),
  validation: (place) => sequencesOf(batch, place),
};
await train({ ...common, ...options }, { place: placeFromEnvironment(), onEvent: ({ event }) => console.log(event) });
