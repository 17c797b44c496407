// One rank of collectives.ts, in a process of its own: enqueues what it is told and answers with what it has then.
import { createModel } from '../../src/model/model.ts';
import { Sharding } from '../../src/model/sharded-parameters.ts';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { allocateShared, Communicator, communicatorId } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import type { LibraryKind } from '../../src/native/find-library.ts';
import { allocateTensor, type Tensor } from '../../src/native/tensor.ts';
import { allGather, allReduce, groupCollectives, joinCollectives, reduceScatter } from '../../src/ops/collectives.ts';
import { globalNorm, globalNormScratch } from '../../src/ops/ops.generated.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { OptimizerState } from '../../src/optimizer/state.ts';
import { weightsHash } from '../../src/train/run/weights-hash.ts';
import { BackgroundWriter } from '../../src/weights/checkpoint/background.ts';
import type { CheckpointHead } from '../../src/weights/checkpoint/write.ts';
import { fillCopy, startOf } from './collectives-start.ts';
import { tinyConfig } from './tiny-model.ts';

type Exchange = 'all_reduce' | 'reduce_scatter' | 'all_gather' | 'norm' | 'large' | 'rounds';
type Gathering = 'save' | 'hash';

export interface RankTask {
  readonly rank: number;
  readonly ranks: number;
  readonly op: Exchange | Gathering | `abandoned ${Gathering}` | 'hang' | 'die';
  /** Elements of a part; of 'rounds', how many thousands. */
  readonly count: number;
  readonly timeoutMilliseconds: number;
  readonly kind: LibraryKind;
  readonly isOneMachine: boolean;
  /** As rank 0 answered when every rank was told its task without it. */
  readonly id?: number[];
}

process.on('message', (task: RankTask) => {
  run(task).catch((error: Error) => process.send!({ error: error.message }, () => process.exit(1)));
});

let device: Device | undefined;

async function run({ rank, ranks, op, count, timeoutMilliseconds, kind, isOneMachine, id }: RankTask): Promise<void> {
  device ??= Device.open({ kind, index: kind === 'cuda' ? rank : 0, threads: 1 });
  if (id === undefined) {
    process.send!({ id: rank === 0 ? [...communicatorId(device, isOneMachine)] : [] });
    return;
  }
  const communicator = new Communicator(device, { id: Uint8Array.from(id), rank, ranks, timeoutMilliseconds });
  const { parts } = communicator;
  const tensor = (name: string, size: number) => allocateTensor(device!, name, 'fp32', [size]);
  const shared = (name: string, shape: number[]) => allocateShared(communicator, name, 'fp32', shape);
  const [whole, part] = [shared('whole', [ranks * count]), tensor('part', count)];
  whole.write(startOf(rank, ranks * count));
  part.write(startOf(rank, count));
  const send = (...tensors: Tensor[]) => {
    joinCollectives(communicator);
    process.send!({ values: tensors.flatMap((each) => [...(each.read() as Float32Array)]) });
  };
  if (op === 'hang') for (;;);
  if (op === 'die') process.kill(process.pid, 'SIGKILL');
  if (op === 'all_reduce') {
    allReduce(communicator, whole);
    send(whole);
  }
  if (op === 'reduce_scatter') {
    const rows = shared('rows', [parts, count + 32]);
    reduceScatter(communicator, { out: rows, start: 5, in: whole });
    send(rows);
  }
  if (op === 'all_gather') {
    allGather(communicator, { out: whole, in: part });
    send(whole);
  }
  if (op === 'large') {
    // More than is summed in one go, with others in a group before and behind.
    const values = Float32Array.from({ length: 5_000_000 }, (_, index) => (index % 1000) + rank);
    const large = tensor('large', values.length);
    large.write(values);
    const rows = shared('rows', [parts, count]);
    groupCollectives(communicator, () => {
      allReduce(communicator, part);
      allReduce(communicator, large);
      reduceScatter(communicator, { out: rows, start: 0, in: whole });
    });
    joinCollectives(communicator);
    const sum = (index: number) => ranks * (index % 1000) + (ranks * (ranks - 1)) / 2;
    const wrong = (large.read() as Float32Array).filter((value, index) => value !== sum(index));
    process.send!({ values: [wrong.length] });
  }
  if (op === 'norm') {
    device.reserveWorkspace(globalNormScratch(device, { matrixCount: count, vectorCount: count }));
    const step = tensor('step', GPT2_STEP.GPT2_STEP_SIZE);
    const rows = allocateTensor(device, 'rows', 'fp32', [ranks, 32 * Math.ceil(count / 32)]);
    for (let row = 0; row < ranks; row++) rows.write(startOf(rank + row, count), (row * rows.count) / ranks);
    const vectors = tensor('vectors', count);
    step.write(Float32Array.of(1), GPT2_STEP.GPT2_STEP_TARGETS);
    const norms = { step, vectors, communicator: communicator.handle, targets: 1, maxNorm: 1 };
    globalNorm(device, { ...norms, matrices: part.view([1, part.count]) });
    const norm = () => (step.read() as Float32Array)[GPT2_STEP.GPT2_STEP_NORM]!;
    const values = [norm()];
    globalNorm(device, { ...norms, matrices: rows });
    process.send!({ values: [...values, norm(), ...(rows.view([count]).read() as Float32Array)] });
  }
  if (op === 'rounds') process.send!({ values: await rounds(communicator, 1000 * count) });
  if (/save|hash/.test(op)) process.send!({ values: await gatherState(communicator, op) });
}

/**
 * Exchanges small parts again and again, each round with what the last one gave: a part that a round found as it was before
 * the copy stays wrong. Two rounds give back what there was.
 * @returns wrong numbers at the end, microseconds a round
 */
async function rounds(communicator: Communicator, count: number): Promise<number[]> {
  const { device, rank, parts } = communicator;
  const [size, recorded] = [32, 1000];
  const start = Float32Array.from({ length: parts * size }, (_, index) => rank * parts * size + index);
  const given = allocateTensor(device, 'given', 'fp32', [start.length]);
  const rows = allocateShared(communicator, 'rows', 'fp32', [parts, size]);
  given.write(start);
  const program = device.program(() => {
    for (let round = 0; round < recorded; round++) {
      reduceScatter(communicator, { out: rows, start: 0, in: given });
      joinCollectives(communicator);
      device.call('copyOnDevice', { destination: given.pointer, source: rows.pointer, bytes: rows.bytes });
    }
  });
  const begun = performance.now();
  for (let round = 0; round < count; round += recorded) program.run();
  await device.finished();
  const microseconds = ((performance.now() - begun) * 1000) / count;
  const wrong = (given.read() as Float32Array).filter((value, index) => value !== start[index]).length;
  return [wrong, microseconds];
}

/** Gathers what ranks share, for a checkpoint or a hash, whose bytes it returns; rank 0 may give the ranks up before that. */
async function gatherState(communicator: Communicator, op: RankTask['op']): Promise<number[]> {
  const { device, rank } = communicator;
  const sharding = new Sharding(communicator, tinyConfig);
  const model = createModel(device, tinyConfig, { B: 1, T: 16, purpose: 'training' }, sharding);
  const { copies } = new OptimizerState(model, new AdamW({ weightDecay: 0 }));
  fillCopy(copies[0]!.copy);
  const writer = new BackgroundWriter(model, copies);
  const head = JSON.parse(process.env.CHECKPOINT_HEAD!) as CheckpointHead;
  let hash = '';
  if (op === 'save' && rank > 0) writer.send();
  else {
    // Optimizer state is divided in every dtype, master weights only in bf16.
    const result = op.endsWith('hash')
      ? weightsHash({ ...model, masters: copies[0]!.copy })
      : writer.write(head, undefined, { inPlace: false });
    if (op.startsWith('abandoned')) communicator.abandon();
    const given = await result;
    if (typeof given === 'string') hash = given;
  }
  await writer.close();
  return [...Buffer.from(hash, 'hex')];
}
