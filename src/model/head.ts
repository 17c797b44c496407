// The head: logits = lnf * wte^T and their cross-entropy, in chunks of tokens, because the logits of a large batch do not fit in
// memory. In training, each chunk's backward follows its forward, while the chunk's logits are in memory. An untied head has a
// separate matrix, and biases. In dtype fp8 the head's three matmuls are in FP8, except if a caller reads logits or passes a loss.
import { checkSynchronous } from '../base/checks/given.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  classifier,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  softcapForward,
} from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import { architectureOf } from './architecture.ts';
import type { ParameterArena } from './arena.ts';
import { paddedVocabularySize } from './config.ts';
import { weightInFp8 } from './linear.ts';
import type { Model } from './model.ts';
import type { Fp8Weight } from './operands.ts';
import { headMatrix } from './parameters.ts';

interface Chunk {
  readonly first: boolean;
  readonly lnf: Tensor;
  readonly logits: Tensor;
  /** The rows of a tensor [B,T,...] that belong to this chunk. */
  rows(tensor: Tensor): Tensor;
}

/** N rows (tokens) of the head's results and targets, all in device memory. */
export interface LossRows {
  readonly device: Device;
  /** The loss of each row: fp32 [N]. */
  readonly losses: Tensor;
  /** [N,Vp] in the device's dtype; the columns from `vocabularySize` on are padding. */
  readonly logits: Tensor;
  /** Target ids, int32 [N]. A row without a target has -1, and must get a loss of 0 and a gradient of 0. */
  readonly targets: Tensor;
  readonly vocabularySize: number;
  /** The derivative of the total loss with respect to one row's loss. */
  readonly dloss: number;
}

/**
 * A loss in place of cross-entropy. Both functions only enqueue ops or kernels. They are called for a chunk of rows at a time, and
 * recorded in a CUDA graph, so they must enqueue the same work at each call.
 */
export interface Loss {
  /** Computes `losses` from logits and targets. */
  forward(rows: LossRows): void;
  /** Overwrites the logits with the derivative of dloss * (sum of losses) with respect to the logits; padding columns with 0. */
  backward(rows: LossRows): void;
}

function* chunks({ B, T, model }: ActivationSet): Generator<Chunk> {
  const N = B * T;
  const [chunkRows, padded] = model.logits.shape as [number, number];
  for (let start = 0; start < N; start += chunkRows) {
    const count = Math.min(chunkRows, N - start);
    const rows = (tensor: Tensor): Tensor => {
      const width = tensor.count / N;
      return tensor.view(width === 1 ? [count] : [count, width], start * width);
    };
    yield { first: start === 0, lnf: rows(model.lnf), logits: model.logits.view([count, padded]), rows };
  }
}

/** The head's tensors in an arena of weights or gradients. GPT-2 has no separate matrix (`weight` is wte) and no bias. */
export const headOf = (arena: ParameterArena): { readonly weight: Tensor; readonly bias: Tensor | null } => ({
  weight: arena.find(headMatrix) ?? arena.get('wte'),
  bias: arena.find('headb') ?? null,
});

/** The head's arguments of the op `classifier`. V is the number of logits in the softmax; with an untied head, padding is included. */
function headArguments({ config, weights }: Model) {
  const { head, softcap } = architectureOf(config);
  const V = head === 'untied' ? paddedVocabularySize(config) : config.vocabularySize;
  return { ...headOf(weights), V, softcap };
}

/** Makes the op's arguments for FP8 operands, all null unless lnf has an FP8 copy. The weight is quantised once for all chunks. */
function copiesOf({ device, weights }: Model, { operands: { lnf } }: ActivationSet, memory: Fp8Weight | undefined) {
  const { rowwise } = lnf;
  if (!rowwise) {
    return () => ({ inValues: null, inScale: null, weightValues: null, weightTransposed: null, factors: null });
  }
  const { weight: weightValues, factors } = weightInFp8(device, memory, { weight: headOf(weights).weight });
  // Without gradients the op does not read `weightTransposed`, so any tensor of its shape will do.
  const weightTransposed = memory?.kept?.transposed ?? weightValues.view(weightValues.shape.toReversed());
  const ofWeight = { weightValues, weightTransposed, factors };
  return ({ rows }: Chunk) => ({ inValues: rows(rowwise.values), inScale: rows(rowwise.scale), ...ofWeight });
}

/** Enqueues the head's forward pass, from `lnf` and `targets` of the batch to `losses` [B,T]. */
export function headForward(model: Model, batch: ActivationSet): void {
  const { losses, targets } = batch.model;
  const forwardOnly = { din: null, dweight: null, dbias: null, step: null, dloss: 0, accumulate: false };
  const head = headArguments(model);
  const copies = copiesOf(model, batch, batch.operands.weightFp8);
  for (const chunk of chunks(batch)) {
    const { lnf, logits, rows } = chunk;
    const outputs = { losses: rows(losses), ...forwardOnly };
    classifier(model.device, { ...outputs, logits, in: lnf, ...copies(chunk), targets: rows(targets), ...head });
  }
}

/**
 * Enqueues the head's forward and backward: from the batch's `lnf` and `targets` to `losses`, the gradient of lnf (in
 * `batch.backward.dbranch`) and the parameters' gradients (overwritten, or added to if `accumulate`). `dloss` is the derivative of the
 * total loss with respect to one token's loss. In FP8, the step block `step` gets the number of tokens whose gradient may have saturated.
 */
export function headForwardBackward(
  model: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { dloss, accumulate, step }: { dloss: number; accumulate: boolean; step?: Tensor },
): void {
  if (!batch.backward) throw new Error('these activations were made for inference');
  const { losses, targets } = batch.model;
  const { dbranch } = batch.backward;
  const { weight: dweight, bias: dbias } = headOf(gradients);
  const copies = copiesOf(model, batch, batch.operands.headFp8);
  const counts = batch.operands.lnf.rowwise && step ? step : null;
  const head = { dweight, dbias, step: counts, ...headArguments(model), dloss };
  for (const chunk of chunks(batch)) {
    const { first, lnf, logits, rows } = chunk;
    const outputs = { losses: rows(losses), din: rows(dbranch), accumulate: accumulate || !first };
    classifier(model.device, { ...outputs, logits, in: lnf, ...copies(chunk), targets: rows(targets), ...head });
  }
}

const noActivation = { pre: null, activated: null, activation: 0 };

/** Computes the logits chunk by chunk, never in FP8. Yields each chunk. Its logits are valid until the next chunk is requested. */
export function* plainLogits(model: Model, batch: ActivationSet): Generator<Chunk> {
  const { device } = model;
  const { weight, bias, softcap } = headArguments(model);
  for (const chunk of chunks(batch)) {
    const { lnf, logits } = chunk;
    matmulForward(device, { out: logits, pre: null, in: lnf, weight, bias, residual: null, activation: 0 });
    if (softcap > 0) softcapForward(device, { out: logits, in: logits, cap: softcap });
    yield chunk;
  }
}

/** The head's forward and backward as in `headForwardBackward`, with an API user's loss in place of cross-entropy. */
export function lossForwardBackward(
  model: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { loss, dloss, accumulate }: { loss: Loss; dloss: number; accumulate: boolean },
): void {
  const { device, config } = model;
  const { losses, targets } = batch.model;
  const { weight } = headArguments(model);
  const { weight: dweight, bias: dbias } = headOf(gradients);
  for (const { first, lnf, logits, rows } of plainLogits(model, batch)) {
    const { vocabularySize } = config;
    const of = { device, losses: rows(losses), logits, targets: rows(targets), vocabularySize, dloss };
    for (const name of ['forward', 'backward'] as const) checkSynchronous(`${name} of loss`, loss[name](of));
    matmulBackwardInput(device, { din: rows(batch.backward!.dbranch), dout: logits, weight, ...noActivation });
    matmulBackwardWeight(device, { dweight, dbias, dout: logits, in: lnf, accumulate: accumulate || !first });
  }
}
