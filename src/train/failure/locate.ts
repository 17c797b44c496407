// Locates the first number that is not finite: computes a step's micro-batches again, op by op, and checks each op's outputs as
// soon as they are written. Every output is copied to the host, so this is for runs that have stopped.
import type { Batch } from '../../data/batches/loader.ts';
import type { ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import { parameterTable } from '../../model/parameters.ts';
import type { Tensor } from '../../native/tensor.ts';
import { numbersOf } from '../../ops/cases/case-numbers.ts';
import { isWritten, type OpContract } from '../../ops/contract.ts';
import { contracts } from '../../ops/ops.generated.ts';
import { observedReplacements } from '../../ops/replacements.ts';
import type { StepResult } from '../step/staging.ts';
import type { Trainer } from '../step/trainer.ts';

/** The first tensor with a number that is not finite, and the op that wrote it. */
export interface Finding {
  /** Counted from 0; absent for weights that were not finite before the step. */
  readonly microBatch?: number;
  /** Counted from 0; absent for embeddings, the last layernorm and the head. */
  readonly layer?: number;
  /** "gpt2_matmul_backward_input"; absent if `microBatch` is. */
  readonly op?: string;
  /** The op's argument as cuda/gpt2.h names it, and the name of the tensor: "din (dbranch)"; for weights the parameter's name. */
  readonly tensor: string;
  /** The first element that is not finite. */
  readonly value: 'NaN' | 'Infinity' | '-Infinity';
}

/** "micro-batch 0, layer 3: gpt2_matmul_forward wrote NaN to out (h.3.qkv)" */
export function describeFinding({ microBatch, layer, op, tensor, value }: Finding): string {
  const place = layer === undefined ? 'outside the layers' : `layer ${layer}`;
  if (microBatch === undefined) return `${place}: before the step the weights ${tensor} hold ${value}`;
  return `micro-batch ${microBatch}, ${place}: ${op} wrote ${value} to ${tensor}`;
}

/**
 * Computes a step's gradients again and finds the first number that is not finite; undefined if there is none (the norm of
 * finite gradients can still exceed fp32).
 * @param nextBatch gives the step's micro-batches
 * @param step as in `Trainer.recompute`
 */
export async function locate(
  trainer: Trainer,
  nextBatch: () => Batch,
  step?: number,
): Promise<{ finding: Finding | undefined; result: Pick<StepResult, 'loss' | 'norm'> }> {
  const { model, gradients, options } = trainer;
  let finding = inWeights(model);
  let microBatch = 0;
  const tensors = tensorsOf(trainer);
  const tensorAt = (address: bigint) =>
    tensors.find(({ pointer, bytes }) => address >= pointer && address < pointer + BigInt(bytes));
  const { model: whole, backward } = model.activations.at(options.batch, options.sequence);
  const { dresidual, dbranch, dqkv, dfc } = backward!;
  let layer: number | undefined;
  const observer = (name: string, args: object) => {
    const op: OpContract | undefined = contracts[name as keyof typeof contracts];
    if (finding || !op) return;
    const named = Object.entries(args).flatMap(([argument, value]) => {
      const tensor = typeof value === 'bigint' ? tensorAt(value) : undefined;
      return tensor ? [{ argument, tensor }] : [];
    });
    // An op without parameters, such as attention, belongs to the layer of the previous op.
    const parameters = named.map(({ tensor }) => tensor).filter((tensor) => parameterName.test(tensor.name));
    if (parameters.length > 0) layer = layerOf(parameters);
    for (const { argument, tensor } of named) {
      const contract = op.tensors[argument];
      const holdsResult = contract && isWritten(contract) && contract.access !== 'scratch';
      const value = holdsResult ? firstNonFinite(tensor) : undefined;
      if (!value) continue;
      const written = `${argument} (${ownName(tensor, layer)})`;
      finding = { microBatch, layer, op: op.symbol, tensor: written, value };
      return;
    }
  };
  const { device } = model;
  const begin = (index: number) => {
    microBatch = index;
    // The head writes its rows in chunks, and values of an earlier step must not be reported as this step's.
    const stale = [dresidual, dbranch, dqkv, whole.losses, ...(dfc ? [dfc] : [])];
    if (index === 0) stale.push(gradients.matrices, gradients.vectors);
    for (const { pointer, bytes } of stale) device.call('fillZero', { destination: pointer, bytes });
  };
  const recompute = () => trainer.recompute(nextBatch, begin, step);
  const result = await device.observed(observer, () => observedReplacements(device, observer, recompute));
  return { finding, result };
}

function inWeights({ config, weights }: Model): Finding | undefined {
  for (const { name } of parameterTable(config)) {
    const tensor = weights.get(name);
    const value = firstNonFinite(tensor);
    if (value) return { layer: layerOf([tensor]), tensor: name, value };
  }
  return undefined;
}

/** A parameter's tensor, and its layer. */
const parameterName = /^(?:weights|gradients|master weights)\.(?:h\.(\d+)\.)?/;

/** The layer of an op, from the parameters among its tensors. */
function layerOf(tensors: readonly Tensor[]): number | undefined {
  for (const { name } of tensors) {
    const layer = parameterName.exec(name)?.[1];
    if (layer !== undefined) return Number(layer);
  }
  return undefined;
}

/** The name of a layer's tensor, also where --recompute makes layers share memory, whose names have no layer number. */
const ownName = ({ name }: Tensor, layer: number | undefined): string =>
  layer === undefined ? name : name.replace(/^h\.(?!\d)/, `h.${layer}.`);

/** The tensors that a step's ops read and write. */
function tensorsOf({ model, gradients, options }: Trainer): Tensor[] {
  const set = model.activations.at(options.batch, options.sequence);
  // The classifier leaves library-specific values in logits, and memory for FP8 weights is mostly unwritten.
  const { logits: _, ...ofModel } = set.model;
  const { weight: __, headTransposed: ___, ...ofFp8 } = set.fp8;
  const parameters = (arena: ParameterArena) => parameterTable(model.config).map(({ name }) => arena.get(name));
  return [ofModel, ...set.layers, set.backward!, ofFp8]
    .flatMap((tensors) => Object.values<Tensor>(tensors))
    .concat(parameters(model.weights), parameters(gradients));
}

/** Elements read at a time. */
const chunk = 1 << 24;

/** The first element of a tensor that is not finite; FP8 (E4M3) and GELU's derivative in one byte have no infinity. */
function firstNonFinite(tensor: Tensor): Finding['value'] | undefined {
  for (let start = 0; start < tensor.count; start += chunk) {
    const values = numbersOf(tensor, tensor.readPart(start, Math.min(chunk, tensor.count - start)));
    const found = values.find((value) => !Number.isFinite(value));
    if (found !== undefined) return String(found) as Finding['value'];
  }
  return undefined;
}
