// Optimizers of whole matrices and of any range share a model: which parts of the matrices each rank updates, and what it allocates.
import { expect, it } from 'vitest';
import { AdamW, createModel, Device, type ModelConfig, parameterTable, Trainer } from '../../src/index.ts';
import type { Selection } from '../../src/model/arena.ts';
import { Sharding } from '../../src/model/sharded-parameters.ts';
import type { Communicator } from '../../src/native/communicator.ts';
import { elementCount } from '../../src/native/element-types.ts';
import { allocateTensor, type Tensor } from '../../src/native/tensor.ts';
import { type OptimizerChoice, updatedWhole } from '../../src/optimizer/assign.ts';
import { isBlockMatrix, Muon } from '../../src/optimizer/muon.ts';
import { OptimizerState } from '../../src/optimizer/state.ts';
import { trainingPlan } from '../../src/train/plan/plan-memory.ts';
import { GradientSum } from './gradient-sum.ts';

const config: ModelConfig = { layers: 3, channels: 20, heads: 2, context: 16, vocabularySize: 61 };

const whole: Record<string, Selection> = {
  'all of layers': isBlockMatrix,
  'one of each layer': ({ name }) => name.endsWith('.fcw'),
  'all of one layer': ({ name }) => /^h\.1\..*w$/.test(name),
  // Behind the one that stays are shares that the next layer leaves empty.
  'all but the smallest of one layer': (parameter) => isBlockMatrix(parameter) && parameter.name !== 'h.0.attprojw',
};

const cases = Object.keys(whole).flatMap((which) => [2, 3, 5, 8].map((ranks) => [ranks, which] as const));

/** Connects no ranks: enough for what a rank allocates and which parts it updates. */
const communicatorOf = (device: Device, rank: number, ranks: number) =>
  ({ device, rank, ranks, parts: ranks, share() {} }) as unknown as Communicator;

it.each(cases)('%i ranks update each element once: whole are %s', (ranks, which) => {
  const [matrices, elements] = [new Muon({ rate: 1, weightDecay: 0 }), new GradientSum(isBlockMatrix)];
  const rest = new GradientSum((parameter) => !isBlockMatrix(parameter));
  const choice: OptimizerChoice = (parameter) => {
    if (!isBlockMatrix(parameter)) return rest;
    return whole[which]!(parameter) ? matrices : elements;
  };
  const updates: number[] = [];
  let starts: ReadonlyMap<string, number> = new Map();
  for (let rank = 0; rank < ranks; rank++) {
    using device = Device.open({ kind: 'cpu', threads: 1 });
    const sharding = new Sharding(communicatorOf(device, rank, ranks), config, updatedWhole(choice));
    const model = createModel(device, config, { B: 1, T: 16, purpose: 'training' }, sharding);
    const state = new OptimizerState(model, choice);
    const gradients = allocateTensor(device, 'own gradients', 'fp32', [sharding.count]);
    const written: { row: Tensor; value: number }[] = [];
    for (const bucket of sharding.layout.buckets) {
      const { count, inArena: start, inParts } = sharding.partOf(bucket);
      for (const optimizer of state.optimizers) {
        for (const part of state.parts(optimizer, 'matrix', gradients, { start, count, inParts })) {
          const { weight, gradient } = part;
          const from = Number(weight.pointer - model.weights.matrices.pointer) / 4;
          expect(Number(gradient.pointer - gradients.pointer) / 4).toBe(inParts + from - start);
          for (let element = from; element < from + weight.count; element++) {
            updates[element] = (updates[element] ?? 0) + 1;
          }
          const [row] = Object.values(part.state);
          expect(row!.shape).toEqual(weight.shape);
          row!.write(new Float32Array(row!.count).fill(from));
          written.push({ row: row!, value: from });
        }
      }
    }
    // No two parts have the same state.
    for (const { row, value } of written) expect(new Set(row.read())).toEqual(new Set([value]));
    starts = model.weights.layout.starts;
  }
  for (const { name, kind, shape } of parameterTable(config)) {
    if (kind === 'vector') continue;
    const start = starts.get(name)!;
    expect(new Set(updates.slice(start, start + elementCount(shape))), name).toEqual(new Set([1]));
  }
});

it.each([
  [2, 1],
  [3, 1],
  [3, 0],
])('each of %i ranks allocates what is planned, --zero %i', (ranks, zero) => {
  const [muon, adamw] = [new Muon({ rate: 1, weightDecay: 0 }), new AdamW({ weightDecay: 0 })];
  const optimizer: OptimizerChoice = (parameter) => (isBlockMatrix(parameter) ? muon : adamw);
  const [B, T, accumulation] = [2, 16, 3];
  for (let rank = 0; rank < ranks; rank++) {
    using device = Device.open({ kind: 'cpu', threads: 1, accumulates: true });
    const communicator = communicatorOf(device, rank, ranks);
    const sharding = zero === 1 ? new Sharding(communicator, config, updatedWhole(optimizer)) : undefined;
    const model = createModel(device, config, { B, T, purpose: 'training' }, sharding);
    new Trainer(model, { batch: B, sequence: T, accumulation, optimizer, gradientClip: 0 }, communicator);
    const shares = zero === 1 ? ranks : 1;
    const plan = trainingPlan(device, config, { B, T, optimizer, rows: B * accumulation, shares, parts: ranks });
    expect(Object.fromEntries(device.allocated)).toEqual(Object.fromEntries(plan));
  }
});
