// One rank of test/ops/collectives.test.ts, in a process of its own: issues what it is told and answers with what it has then.

import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { allocateTensor } from '../../src/native/buffer.ts';
import { Communicator, communicatorId } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import { allGather, allReduce, joinCollectives, reduceScatter } from '../../src/ops/collectives.ts';
import { globalNorm, globalNormScratch } from '../../src/ops/global-norm.ts';
import { Random } from './tensors.ts';

export interface RankTask {
  readonly rank: number;
  readonly ranks: number;
  readonly op: 'all_reduce' | 'reduce_scatter' | 'all_gather' | 'norm' | 'hang' | 'die';
  /** Elements of a part. */
  readonly count: number;
  readonly timeoutMilliseconds: number;
}

/** The numbers that a rank starts with. */
export const startOf = (rank: number, count: number): Float32Array => new Random(rank + 1).normals(count, 10 ** rank);

process.on('message', (task: RankTask & { id?: number[] }) => {
  try {
    run(task);
  } catch (error) {
    process.send!({ error: (error as Error).message }, () => process.exit(1));
  }
});

let device: Device | undefined;

function run({ rank, ranks, op, count, timeoutMilliseconds, id }: RankTask & { id?: number[] }): void {
  device ??= Device.open({ kind: 'cpu', threads: 1 });
  if (id === undefined) {
    process.send!({ id: [...communicatorId(device)] });
    return;
  }
  const given = { id: Uint8Array.from(id), rank, ranks, timeoutMilliseconds };
  const communicator = new Communicator(device, given);
  const tensor = (name: string, size: number) => allocateTensor(device!, name, 'fp32', [size]);
  const [whole, part] = [tensor('whole', ranks * count), tensor('part', count)];
  whole.write(startOf(rank, ranks * count));
  part.write(startOf(rank, count));
  if (op === 'hang') for (;;);
  if (op === 'die') process.kill(process.pid, 'SIGKILL');
  if (op === 'all_reduce') allReduce(communicator, whole);
  if (op === 'reduce_scatter') reduceScatter(communicator, { out: whole.view([count], rank * count), input: whole });
  if (op === 'all_gather') allGather(communicator, { out: whole, input: part });
  if (op === 'norm') {
    device.reserveWorkspace(globalNormScratch(device, { matrixCount: count, vectorCount: count }));
    const step = tensor('step', GPT2_STEP.GPT2_STEP_SIZE);
    globalNorm(device, { step, matrices: part, vectors: tensor('vectors', count), maxNorm: 1, communicator });
    process.send!({ values: [(step.read() as Float32Array)[GPT2_STEP.GPT2_STEP_NORM]] });
    return;
  }
  joinCollectives(communicator);
  process.send!({ values: [...(whole.read() as Float32Array)] });
}
