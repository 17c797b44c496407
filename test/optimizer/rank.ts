// One rank of second-optimizer.test.ts: trains with two optimizers under ZeRO-1, and gives its part of a checkpoint.
import { BackgroundWriter } from '../../src/checkpoint/background.ts';
import type { CheckpointHead } from '../../src/checkpoint/write.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { createModel } from '../../src/model/model.ts';
import { Sharding } from '../../src/model/sharded-parameters.ts';
import { Communicator, communicatorId } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import { trainingPlan } from '../../src/train/plan/memory.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { GradientSum } from './gradient-sum.ts';
import { config, microBatch, mixed, sizes, steps } from './mixed.ts';

export interface RankTask {
  readonly rank: number;
  readonly head: CheckpointHead;
  /** Undefined: the rank is asked for it. */
  readonly id?: number[];
}

const [B, T] = [sizes.batch, sizes.sequence];
const device = Device.open({ kind: 'cpu', threads: 1 });

process.on('message', ({ rank, head, id }: RankTask) => {
  if (id === undefined) process.send!({ id: [...communicatorId(device, true)] });
  else run(rank, head, id).then((answer) => process.send!(answer, () => process.exit()));
});

async function run(rank: number, head: CheckpointHead, id: number[]) {
  const communicator = new Communicator(device, {
    id: Uint8Array.from(id),
    rank,
    ranks: 2,
    timeoutMilliseconds: 20_000,
  });
  const sharding = new Sharding(communicator, config);
  const model = createModel(device, config, { B, T, purpose: 'training' }, sharding);
  initializeWeights(model, 1);
  const sum = new GradientSum();
  const optimizer = mixed(sum);
  const trainer = new Trainer(model, { ...sizes, optimizer, accumulation: 1 }, communicator);
  for (let step = 0; step < steps; step++) {
    const { finished } = await trainer.begin(step, 1e-3, () => microBatch(step, rank));
    await finished();
  }
  trainer.update();
  const planned = trainingPlan(device, config, { B, T, optimizer, shares: 2 }).get('optimizer state');
  const allocated = device.allocated.get('optimizer state');
  const writer = new BackgroundWriter(model, trainer.optimizerState.copies);
  if (rank === 0) await writer.write(head, undefined, { inPlace: false });
  else writer.send();
  await device.finished();
  await writer.close();
  return { planned, allocated, seen: [...new Set(sum.seen)] };
}
