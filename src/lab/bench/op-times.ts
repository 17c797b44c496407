// Times the ops of a training step. The calls of one real step are recorded and grouped by name. Each group is then repeated on the
// step's tensors, layer after layer.
import type { Batch } from '../../data/batches/loader.ts';
import type { ParameterArena } from '../../model/arena.ts';
import type { ModelConfig } from '../../model/config.ts';
import type { Model } from '../../model/model.ts';
import { parameterTable } from '../../model/parameters.ts';
import type { Pointer } from '../../native/bindings.generated.ts';
import type { Device } from '../../native/device.ts';
import { opCases } from '../../ops/cases/index.ts';
import { bytesMoved, type NativeArguments, type OpContract } from '../../ops/contract.ts';
import { parseSignature } from '../../ops/kernels/signature.ts';
import { contracts } from '../../ops/ops.generated.ts';
import { variantOf } from '../../ops/variants.ts';
import type { Trainer } from '../../train/step/trainer.ts';
import type { Work } from './peaks.ts';
import { timeOnDevice } from './timing.ts';

/** Time and work of one call of an op. If the op's calls differ, the mean over them. */
export interface OpTime extends Work {
  readonly name: string;
  /** Number of calls in a step. */
  readonly calls: number;
  /** Milliseconds of one call. */
  readonly ms: number;
}

/** A recorded call. `op` is undefined if a user's kernel replaced the op: the kernel's flops and bytes are unknown. */
export interface Call<Op = OpContract | undefined> {
  readonly op: Op;
  readonly args: NativeArguments;
}

type Arenas = readonly Pick<ParameterArena, 'get'>[];
type NameOf = (call: Call<OpContract>) => string;

const flopsOf = new Map(Object.values(opCases).flatMap((list) => list.map(({ variant, flops }) => [variant, flops])));

/** Times every op of one training step of `trainer`. The step changes weights, optimizer state and gradients. */
export async function timeOps(trainer: Trainer, nextBatch: () => Batch): Promise<OpTime[]> {
  const { model, gradients } = trainer;
  // Drop the recorded graphs, because launching a graph calls no op that could be recorded.
  model.device.dropGraphs();
  return timeCalls(model, [gradients], () => trainer.step(0, 1e-4, nextBatch));
}

/** Times the ops that `enqueue` calls, by name. @param arenas of gradients: a matmul is named by the weight whose gradient it writes */
export async function timeCalls(model: Model, arenas: Arenas, enqueue: () => Promise<unknown>): Promise<OpTime[]> {
  const { device } = model;
  const least = device.description.library === 'cuda' ? 20 : 5;
  const times: OpTime[] = [];
  for (const [name, calls] of await recordCalls(device, namer(model.config, [model.weights, ...arenas]), enqueue)) {
    let next = 0;
    // Cycle through the layers' calls as a step does: if one call were repeated, its tensors would be in the cache.
    const ms = await timeOnDevice(device, () => enqueueAgain(device, calls[next++ % calls.length]!), least);
    const works = calls.map((call) => workOf(device, call));
    const mean = (of: keyof Work) => works.reduce((sum, work) => sum + work[of], 0) / calls.length;
    const work = { flops: mean('flops'), fp8Flops: mean('fp8Flops'), bytes: mean('bytes') };
    times.push({ name, calls: calls.length, ms, ...work });
  }
  return times;
}

/** Work of a call: floating-point operations of its matmuls, and the least bytes that it must move. */
export function workOf(device: Device, { op, args }: Call): Work {
  const flops = (op && flopsOf.get(variantOf(op, args))?.(args as Record<string, number>)) ?? 0;
  return { flops, fp8Flops: op && isInFp8(op, args) ? flops : 0, bytes: op ? bytesMoved(device, op, args) : 0 };
}

/** Whether an op's matmuls read FP8 tensors in this call. */
const isInFp8 = ({ tensors }: OpContract, args: NativeArguments): boolean =>
  Object.entries(tensors).some(
    ([name, { type, access }]) => type === 'fp8' && access === 'read' && args[name] !== null,
  );

/** Enqueues a recorded call again: the library's op, or the user's kernel. */
export const enqueueAgain = (device: Device, { op, args }: Call): void =>
  device.call((op?.name ?? 'moduleLaunch') as 'adamw', args as never);

/** Records the calls that `enqueue` makes, grouped by name, in the order of each name's first call. */
async function recordCalls(device: Device, nameOf: NameOf, enqueue: () => Promise<unknown>) {
  const recorded = new Map<string, Call[]>();
  await device.observed((function_, args) => {
    const op: OpContract | undefined = contracts[function_ as keyof typeof contracts];
    if (!op && function_ !== 'moduleLaunch') return;
    const call = { op, args: args as NativeArguments };
    const name = op ? nameOf({ op, args: call.args }) : kernelOf(device, call.args);
    recorded.set(name, [...(recorded.get(name) ?? []), call]);
  }, enqueue);
  return recorded;
}

/** Name of a user's kernel (--kernel) in the table of ops: "my_norm (own)". */
function kernelOf(device: Device, { module, kernel }: NativeArguments): string {
  const described = JSON.parse(device.describeModule(module as Pointer)) as readonly { signature: string }[];
  return `${parseSignature(described[kernel as number]!.signature).name} (own)`;
}

/**
 * Makes the function that names calls: "layernorm backward". A matmul is named by its weight and the ops fused into it:
 * "qkv forward", "layernorm + fc forward + gelu", "fp8 fc backward weight".
 */
function namer(config: ModelConfig, arenas: Arenas): NameOf {
  const weights = new Map<Pointer, string>();
  for (const { name } of parameterTable(config)) {
    const short = name.split('.').at(-1)!.replace(/w$/, '');
    for (const arena of arenas) weights.set(arena.get(name).pointer, short);
  }
  /** By the address of a weight's FP8 copy, the matmul that reads the copy: "qkv forward". Set when the weight is quantized. */
  const quantized = new Map<unknown, string>();
  return ({ op, args }) => {
    const [words, variant = 'plain'] = variantOf(op, args).name.split('.') as [string, string?];
    if (words === 'fp8_quantize_weight') {
      const weight = weights.get(args.weight as Pointer);
      const { values, transposed } = args;
      quantized.set(values, `${weight} forward`).set(transposed, `${weight} backward input`);
      const copies = values === null ? ' transposed' : transposed === null ? '' : ' + transposed';
      return `fp8 quantize ${weight}${copies}`;
    }
    const [, prefix, direction] = /^(fp8_|norm_)?matmul_(.*)$/.exec(words) ?? [];
    // "norm_forward.layernorm" becomes "layernorm forward"; "classifier.fp8" becomes "fp8 classifier".
    if (!direction) {
      const named = variant === 'fp8' ? `fp8 ${words}` : words.replace(/^norm(?=_)/, variant);
      return named.replaceAll('_', ' ');
    }
    const weight = weights.get((args.weight ?? args.dweight) as Pointer);
    const matmul = quantized.get(args.transposed ?? args.weight) ?? `${weight} ${direction}`;
    const fused = variant !== 'plain' ? ` + ${variant}` : args.residual ? ' + residual' : '';
    const before = prefix === 'fp8_' ? 'fp8 ' : prefix === 'norm_' ? 'layernorm + ' : '';
    return `${before}${matmul}${fused}`.replaceAll('_', ' ');
  };
}
