// One rank of second-optimizer.test.ts: trains with two optimizers, and gives its part of a checkpoint.
import { createHash } from 'node:crypto';
import { initializeWeights } from '../../src/model/initialize.ts';
import { createModel, type Model } from '../../src/model/model.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { Sharding } from '../../src/model/sharded-parameters.ts';
import { Communicator, communicatorId } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import { updatedWhole } from '../../src/optimizer/assign.ts';
import type { UpdatePart } from '../../src/optimizer/optimizer.ts';
import type { StateCopy } from '../../src/optimizer/state.ts';
import { trainingPlan } from '../../src/train/plan/plan-memory.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { BackgroundWriter } from '../../src/weights/checkpoint/background.ts';
import { verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { loadOptimizer, loadWeights } from '../../src/weights/checkpoint/read-checkpoint.ts';
import type { CheckpointHead } from '../../src/weights/checkpoint/write.ts';
import { GradientSum } from './gradient-sum.ts';
import { MatrixMomentum } from './matrix-momentum.ts';
import { config, microBatch, microBatches, mixed, sizes } from './mixed.ts';

/** The work of the ranks. */
export interface Job {
  readonly ranks: number;
  readonly zero: 0 | 1;
  readonly optimizer: 'gradient sum' | 'matrix momentum';
  /** A checkpoint to begin with. Default: initial weights. */
  readonly from?: string;
  /** Steps to train, from the first on. */
  readonly first: number;
  readonly steps: number;
  /** Head of the checkpoint to write. */
  readonly head: CheckpointHead;
}

export interface RankTask extends Job {
  readonly rank: number;
  /** Undefined: the rank is asked for it. */
  readonly id?: number[];
}

export interface RankAnswer {
  /** Bytes of device memory by name, without the workspace. */
  readonly planned: [string, number][];
  readonly allocated: [string, number | undefined][];
  /** Scalars of `GradientSum` in each update. */
  readonly scalars: number[];
  /** "h.0.qkvw 1" for each matrix of each step that `MatrixMomentum` updated. */
  readonly matrices: string[][];
  /** sha256 over all optimizer state. */
  readonly state: string;
}

const [B, T] = [sizes.batch, sizes.sequence];
let device: Device | undefined;

process.on('message', (task: RankTask) => {
  device ??= Device.open({ kind: 'cpu', threads: 1, accumulates: true });
  if (task.ranks > 1 && task.id === undefined) process.send!({ id: [...communicatorId(device, true)] });
  else run(device, task).then((answer) => process.send!(answer));
});

async function run(device: Device, { rank, ranks, id, ...task }: RankTask): Promise<RankAnswer> {
  const communicator =
    id && new Communicator(device, { id: Uint8Array.from(id), rank, ranks, timeoutMilliseconds: 20_000 });
  const other = task.optimizer === 'gradient sum' ? new GradientSum() : new MatrixMomentum();
  const optimizer = mixed(other);
  const divides = communicator !== undefined && task.zero === 1;
  const sharding = divides ? new Sharding(communicator, config, updatedWhole(optimizer)) : undefined;
  const model = createModel(device, config, { B, T, purpose: 'training' }, sharding);
  const accumulation = microBatches / ranks;
  const trainer = new Trainer(model, { ...sizes, optimizer, accumulation }, communicator);
  const { copies } = trainer.optimizerState;
  if (task.from === undefined) initializeWeights(model, 1);
  else {
    const checkpoint = verifyCheckpoint(task.from);
    loadWeights(checkpoint, model);
    loadOptimizer(checkpoint, model, copies);
  }
  const seen: UpdatePart[][] = [];
  for (let step = task.first; step < task.first + task.steps; step++) {
    let index = rank * accumulation;
    const { finished } = await trainer.begin(step, 1e-3, () => microBatch(step, index++));
    await finished();
    trainer.update();
    if (other instanceof MatrixMomentum) seen.push(other.seen.splice(0).flat());
  }
  const parts = communicator?.parts;
  const plan = trainingPlan(device, config, {
    ...{ B, T, optimizer, rows: B * accumulation, shares: divides ? ranks : 1, parts },
  });
  const planned = [...plan].filter(([name]) => name !== 'workspace');
  const answer = {
    planned,
    allocated: planned.map(([name]) => [name, device.allocated.get(name)] as [string, number | undefined]),
    scalars: other instanceof GradientSum ? [...new Set(other.seen)] : [],
    matrices: seen.map((parts) => parts.map((part) => nameOf(model, part))),
    state: await stateHash(copies),
  };
  const writer = new BackgroundWriter(model, copies);
  if (rank === 0) await writer.write(task.head, undefined, { inPlace: false });
  else writer.send();
  await device.finished();
  await writer.close();
  closeDevice();
  return answer;
}

function closeDevice(): void {
  device!.close();
  device = undefined;
}

/** The name and index of a matrix, from where its weights are. */
function nameOf({ weights }: Model, { weight }: UpdatePart): string {
  for (const { name, kind } of parameterTable(config)) {
    const { pointer, bytes } = weights.get(name);
    const offset = Number(weight.pointer - pointer);
    if (kind === 'vector' || offset < 0 || offset >= bytes) continue;
    if (offset % weight.bytes > 0) throw new Error(`${name} at byte ${offset}, not a multiple of ${weight.bytes}`);
    return `${name} ${offset / weight.bytes}`;
  }
  throw new Error('a part is outside all parameters');
}

async function stateHash(copies: readonly StateCopy[]): Promise<string> {
  const hash = createHash('sha256');
  for (const { parameters, copy } of copies) {
    for (const parameter of parameters) hash.update(new Uint8Array((await copy.readWhole(parameter)).buffer));
  }
  return hash.digest('hex');
}
