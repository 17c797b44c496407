// The calls of ops in a training step of GPT-2: the tensors on which a kernel is timed. Every op is recorded as the step calls it, and
// plain ops also in the place of the fused ones that consist of them.
import type { Call } from '../bench/op-times.ts';
import { measurePeaks, type Peaks } from '../bench/peaks.ts';
import { splitFused } from '../kernels/use-cards.ts';
import { presetConfig } from '../model/config.ts';
import { initializeWeights } from '../model/initialize.ts';
import { createModel } from '../model/model.ts';
import type { Device } from '../native/device.ts';
import type { OpContract } from '../ops/contract.ts';
import type { OpArguments } from '../ops/enqueue.ts';
import { contracts } from '../ops/ops.generated.ts';
import { replaceOp } from '../ops/replacements.ts';
import { AdamW } from '../optimizer/adamw.ts';
import { Trainer } from '../train/step/trainer.ts';

/** Sizes of the step: d12 on a GPU; what a CPU does in a moment on a CPU. */
const settings = {
  cuda: { config: presetConfig('d12')!, batch: 8, sequence: 1024 },
  cpu: {
    config: { layers: 2, heads: 2, channels: 64, context: 64, vocabularySize: 300 },
    ...{ batch: 2, sequence: 32 },
  },
};

export interface RecordedCall extends Call<OpContract> {
  readonly given: OpArguments;
}

export interface StepCalls {
  readonly peaks: Peaks;
  /** By the name of the op's contract. */
  readonly calls: ReadonlyMap<string, readonly RecordedCall[]>;
}

const known = new WeakMap<Device, Promise<StepCalls>>();

/** The calls of a step on a device, and the device's limits; the model stays allocated. It resets all replacements of ops. */
export function stepCalls(device: Device): Promise<StepCalls> {
  const calls = known.get(device) ?? record(device);
  known.set(device, calls);
  return calls;
}

async function record(device: Device): Promise<StepCalls> {
  const peaks = await measurePeaks(device);
  const { config, batch, sequence } = settings[device.description.library];
  const model = createModel(device, config, { B: batch, T: sequence, purpose: 'training' });
  initializeWeights(model, 42);
  const optimizer = new AdamW({ weightDecay: 0.1 });
  const trainer = new Trainer(model, { batch, sequence, accumulation: 1, optimizer, gradientClip: 1 });
  const ids = () => Int32Array.from({ length: batch * sequence }, () => Math.random() * config.vocabularySize);
  const step = () => trainer.step(0, 1e-4, () => ({ inputs: ids(), targets: ids() }));
  resetOps(device);
  // A real one first: times depend on the numbers.
  await step();
  const calls = new Map<string, RecordedCall[]>();
  for (const splits of [false, true]) {
    const own = new Map<string, RecordedCall[]>();
    for (const op of Object.values(contracts)) {
      replaceOp(device, op.name, (given, args) => {
        own.set(op.name, [...(own.get(op.name) ?? []), { op, args, given }]);
      });
    }
    if (splits) splitFused(device);
    device.dropGraphs();
    await step();
    for (const [name, list] of own) calls.set(name, list);
  }
  resetOps(device);
  device.dropGraphs();
  return { peaks, calls };
}

function resetOps(device: Device): void {
  for (const { name } of Object.values(contracts)) replaceOp(device, name, undefined);
}
