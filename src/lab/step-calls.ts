// Records the calls of ops in a GPT-2 training step. Kernels are then timed on the tensors of these calls. One step records the calls as
// they are. A second step splits each fused op into plain ops (matmul + GELU into matmul, GELU), so that plain ops can be timed too.
import { gpt2Error } from '../base/errors.ts';
import { presetConfig } from '../model/config.ts';
import { initializeWeights } from '../model/initialize.ts';
import { absentDevice } from '../native/absent-device.ts';
import type { Device, Dtype } from '../native/device.ts';
import { absentIn, type OpContract, type OpVariant } from '../ops/contract.ts';
import { splitFused } from '../ops/kernels/use-cards.ts';
import { type OpArguments, replaceOp } from '../ops/replacements.ts';
import { opVariants } from '../ops/variants.ts';
import { AdamW } from '../optimizer/adamw.ts';
import { createTraining } from '../train/step/training.ts';
import { randomBatches } from './bench/bench.ts';
import type { Call } from './bench/op-times.ts';
import { measurePeaks } from './bench/peaks.ts';
import { sizesText } from './test-op.ts';

/** A model so small that its training step takes a moment in the emulator on a CPU. */
const tiny = { layers: 2, heads: 2, channels: 64, context: 64, vocabularySize: 300 };
/** The model and the sizes of the recorded step. */
const settings = {
  cuda: { name: 'd12', config: presetConfig('d12')!, batch: 8, sequence: 1024 },
  cpu: { config: tiny, batch: 2, sequence: 32 },
};

export interface RecordedCall extends Call<OpContract> {
  readonly given: OpArguments;
}

/** The sizes of a call as text: "N 8192, C 768". */
export const sizesOf = ({ op, args }: RecordedCall): string =>
  sizesText(Object.fromEntries(op.sizes.map((name) => [name, args[name] as number])));

/** Groups the calls of an op by their sizes, as text: "N 8192, C 768". @throws Gpt2Error if the step does not use the op */
export function callsBySize(variant: OpVariant, calls: Calls, dtype: Dtype) {
  const groups = new Map<string, [RecordedCall, ...RecordedCall[]]>();
  const absent = absentIn(variant);
  for (const call of calls.get(variant) ?? []) {
    // Calls without an optional tensor (a bias) form a separate group, because they move fewer bytes.
    const isMissing = (name: string) => call.given[name] === null && !absent.includes(name);
    const missing = Object.keys(variant.op.tensors).filter(isMissing);
    const kind = [sizesOf(call), ...missing.map((name) => `without ${name}`)].join(', ');
    const group = groups.get(kind);
    if (group) group.push(call);
    else groups.set(kind, [call]);
  }
  if (groups.size > 0) return groups;
  throw gpt2Error`a training step with AdamW in ${dtype} does not use ${variant.name}, so there are no sizes to measure it at`;
}

/** The recorded calls of a step, by op or variant of an op. */
export type Calls = ReadonlyMap<OpVariant, readonly RecordedCall[]>;

export type StepCalls = Awaited<ReturnType<typeof record>>;

const known = new WeakMap<Device, Map<number, Promise<StepCalls>>>();

/**
 * Records the op calls of a step, and measures the device's best rates. The model stays allocated. User kernels replace no op any more.
 * @param batch sequences in the step; default 8, on a CPU 2
 */
export function stepCalls(device: Device, batch = settings[device.description.library].batch): Promise<StepCalls> {
  const batches = known.get(device) ?? new Map<number, Promise<StepCalls>>();
  known.set(device, batches);
  const calls = batches.get(batch) ?? record(device, batch);
  batches.set(batch, calls);
  // Forget a failed recording: a later request may find more free memory.
  calls.catch(() => batches.delete(batch));
  return calls;
}

async function record(device: Device, batch: number) {
  const peaks = await measurePeaks(device);
  const { config, sequence } = settings[device.description.library];
  const { model, trainer } = createTraining(device, config, { B: batch, T: sequence, optimizer });
  initializeWeights(model, 42);
  const nextBatch = randomBatches(batch * sequence, config);
  const step = () => trainer.step(0, 1e-4, nextBatch);
  resetOps(device);
  // Run one step before recording, so that the tensors hold real values: a kernel's time depends on them.
  await step();
  return { peaks, calls: await callsOf(device, step) };
}

const optimizer = new AdamW({ weightDecay: 0.1 });

const { cuda } = settings;
/** The recorded step of a GPU, in words: "d12 with a batch of 8 x 1024". */
export const gpuStep = `${cuda.name} with a batch of ${cuda.batch} x ${cuda.sequence}`;

/** Records the calls of a GPU's step on a machine without a GPU. The tensors have shapes and dtypes, but no memory. */
export async function callsWithoutGpu(dtype: Dtype): Promise<{ readonly device: Device; readonly calls: Calls }> {
  const { config, batch, sequence } = cuda;
  const device = absentDevice({ kind: 'cuda', dtype });
  const { trainer } = createTraining(device, config, { B: batch, T: sequence, optimizer });
  return { device, calls: await callsOf(device, async () => trainer.enqueueOps()) };
}

async function callsOf(device: Device, step: () => Promise<unknown>): Promise<Calls> {
  const calls = new Map<OpVariant, RecordedCall[]>();
  for (const splits of [false, true]) {
    const recorded = new Map<OpVariant, RecordedCall[]>();
    for (const variant of opVariants) {
      replaceOp(device, variant, (given, args) => {
        recorded.set(variant, [...(recorded.get(variant) ?? []), { op: variant.op, args, given }]);
      });
    }
    if (splits) splitFused(device);
    device.dropGraphs();
    await step();
    for (const [variant, list] of recorded) calls.set(variant, list);
  }
  resetOps(device);
  device.dropGraphs();
  return calls;
}

function resetOps(device: Device): void {
  for (const variant of opVariants) replaceOp(device, variant, undefined);
}
