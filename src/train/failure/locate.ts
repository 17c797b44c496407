// Locates the first NaN or infinity of a training step: computes the step's micro-batches again, op by op, and checks each op's
// outputs as soon as they are written. Every output is copied to the host, which is slow, so this runs only after a step has failed.
import type { Batch } from '../../data/batches/loader.ts';
import type { ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import { parameterTable } from '../../model/parameters.ts';
import type { Tensor } from '../../native/tensor.ts';
import { numbersOf } from '../../ops/cases/case-numbers.ts';
import { isWritten, type OpContract } from '../../ops/contract.ts';
import { contracts } from '../../ops/ops.generated.ts';
import { observedReplacements } from '../../ops/replacements.ts';
import type { Capture } from '../../weights/checkpoint/capture.ts';
import type { StepResult } from '../step/staging.ts';
import type { Trainer } from '../step/trainer.ts';

/** The first tensor with a number that is not finite, and the op that wrote it. */
export type Finding = NonNullable<Capture['finding']>;

/** Formats a finding: "micro-batch 0, layer 3: gpt2_matmul_forward wrote NaN to out (h.3.qkv)" */
export function describeFinding({ microBatch, layer, op, tensor, value }: Finding): string {
  const place = layer === undefined ? 'outside the layers' : `layer ${layer}`;
  if (microBatch === undefined) return `${place}: before the step the weights ${tensor} hold ${value}`;
  return `micro-batch ${microBatch}, ${place}: ${op} wrote ${value} to ${tensor}`;
}

/**
 * Computes a step's gradients again and finds the first number that is not finite. `finding` is undefined if all numbers are
 * finite; even then the norm of the gradients can exceed the range of fp32.
 * @param nextBatch returns the step's micro-batches in order
 * @param step index of the step, which determines its attention windows; default: the model's windows
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
    // An op without parameter tensors, such as attention, counts as part of the previous op's layer.
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
    // Fill these tensors with zeros: the head writes its rows in chunks, and rows not yet written may hold an earlier step's NaN.
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

/** Matches the name of a parameter's tensor; the capture group is the layer's index. */
const parameterName = /^(?:weights|gradients|master weights)\.(?:h\.(\d+)\.)?/;

/** The layer's index in the first tensor name that has one; undefined outside the layers. */
function layerOf(tensors: readonly Tensor[]): number | undefined {
  for (const { name } of tensors) {
    const layer = parameterName.exec(name)?.[1];
    if (layer !== undefined) return Number(layer);
  }
  return undefined;
}

/** Adds the layer's index to a tensor's name: with --recompute, layers share tensors, so names such as "h.qkv" lack the index. */
const ownName = ({ name }: Tensor, layer: number | undefined): string =>
  layer === undefined ? name : name.replace(/^h\.(?!\d)/, `h.${layer}.`);

/** The tensors of a step to check: activations and their gradients, weights and weight gradients. */
function tensorsOf({ model, gradients, options }: Trainer): Tensor[] {
  const set = model.activations.at(options.batch, options.sequence);
  // Leave out FP8 weights, which are mostly unwritten, and logits, in which the libraries' classifiers leave different values.
  const { logits: _, ...ofModel } = set.model;
  const { weight: __, headTransposed: ___, ...ofFp8 } = set.fp8;
  const parameters = (arena: ParameterArena) => parameterTable(model.config).map(({ name }) => arena.get(name));
  return [ofModel, ...set.layers, set.backward!, ofFp8]
    .flatMap((tensors) => Object.values<Tensor>(tensors))
    .concat(parameters(model.weights), parameters(gradients));
}

/** Number of elements copied to the host at a time. */
const chunk = 1 << 24;

/** The first NaN or infinity in a tensor; undefined if there is none. FP8 (E4M3) and the one-byte GELU derivative hold no infinity. */
function firstNonFinite(tensor: Tensor): Finding['value'] | undefined {
  for (let start = 0; start < tensor.count; start += chunk) {
    const values = numbersOf(tensor, tensor.readPart(start, Math.min(chunk, tensor.count - start)));
    const found = values.find((value) => !Number.isFinite(value));
    if (found !== undefined) return String(found) as Finding['value'];
  }
  return undefined;
}
