// Times the ops of a training step one by one: the calls of a real step are recorded, then repeated by name, on the step's own
// tensors, layer after layer.
import type { Batch } from '../batches/loader.ts';
import { parameterTable } from '../model/parameters.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import { opCases } from '../op-cases/index.ts';
import { bytesMoved, type NativeArguments, type OpContract } from '../ops/contract.ts';
import { contracts } from '../ops/ops.generated.ts';
import type { Trainer } from '../train/step/trainer.ts';
import { timeOnDevice } from './timing.ts';

export interface OpTime {
  readonly name: string;
  /** Times a step runs it. */
  readonly calls: number;
  /** Of one call; the mean if they differ. */
  readonly ms: number;
  /** Multiplications and additions of one call's products; 0 for ops that only move data. */
  readonly flops: number;
  /** Each input read once and each output written once, in one call. */
  readonly bytes: number;
}

interface Call {
  readonly op: OpContract;
  readonly args: NativeArguments;
}

const flopsOf = new Map(Object.values(opCases).flatMap((list) => list.map(({ op, flops }) => [op.name, flops])));

/** Times every op of one of `trainer`'s steps. It leaves weights, optimizer state and gradients changed. */
export async function timeOps(trainer: Trainer, nextBatch: () => Batch): Promise<OpTime[]> {
  const { device } = trainer.model;
  const least = device.description.library === 'cuda' ? 20 : 5;
  const times: OpTime[] = [];
  for (const [name, calls] of await recordStep(trainer, nextBatch)) {
    let next = 0;
    // Call after call, as in a step: one layer's tensors again and again might stay in a cache.
    const ms = await timeOnDevice(device, () => issueAgain(device, calls[next++ % calls.length]!), least);
    const mean = (of: (call: Call) => number) => calls.reduce((sum, call) => sum + of(call), 0) / calls.length;
    times.push({
      name,
      calls: calls.length,
      ms,
      flops: mean(({ op, args }) => flopsOf.get(op.name)?.(args as Record<string, number>) ?? 0),
      bytes: mean(({ op, args }) => bytesMoved(device, op, args)),
    });
  }
  return times;
}

const issueAgain = (device: Device, { op, args }: Call): void => device.call(op.name as 'adamw', args as never);

/** The ops that one step issues, by name, in the order of their first call. */
async function recordStep(trainer: Trainer, nextBatch: () => Batch): Promise<Map<string, Call[]>> {
  const { device } = trainer.model;
  const nameOf = namer(trainer);
  const recorded = new Map<string, Call[]>();
  // A step that is replayed issues nothing that could be seen.
  device.dropGraphs();
  await device.observed(
    (function_, args) => {
      const op: OpContract | undefined = contracts[function_ as keyof typeof contracts];
      if (!op) return;
      const call = { op, args: args as NativeArguments };
      const name = nameOf(call);
      recorded.set(name, [...(recorded.get(name) ?? []), call]);
    },
    () => trainer.step(0, 1e-4, nextBatch),
  );
  return recorded;
}

/** "layernorm backward"; a matmul by its weight, and "+ gelu" if it is fused: "qkv forward", "fcproj backward input + gelu". */
function namer({ model, gradients }: Trainer): (call: Call) => string {
  const weights = new Map<Pointer, string>();
  for (const { name } of parameterTable(model.config)) {
    const short = name.split('.').at(-1)!.replace(/w$/, '');
    for (const arena of [model.weights, gradients]) weights.set(arena.get(name).pointer, short);
  }
  return ({ op, args }) => {
    const words = op.symbol.replace(/^gpt2_/, '');
    const [, fused, direction] = /^matmul_(?:(gelu|residual)_)?(.*)$/.exec(words) ?? [];
    if (!direction) return words.replaceAll('_', ' ');
    const weight = weights.get((args.weight ?? args.dweight) as Pointer);
    return `${weight} ${direction.replaceAll('_', ' ')}${fused ? ` + ${fused}` : ''}`;
  };
}
