// GPT-2's forward pass, op by op as in the paper (Radford et al. 2019): embedding; per layer attention and MLP, each on a
// layernorm of the residual stream and added to it; the final layernorm. The head is in head.ts.
import type { Tensor } from '../native/buffer.ts';
import {
  attentionForward,
  embeddingForward,
  layernormForward,
  matmulForward,
  matmulGeluForward,
  matmulResidualForward,
} from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import type { Model } from './model.ts';

/**
 * Enqueues the forward pass from `batch.model.tokens` [B,T] to `batch.model.lnf` [B,T,C], the final hidden states. Logits and
 * losses come from the head: `lossesOf`, `meanLoss`.
 * @param beforeLayer called before the first op that reads a layer's weights is enqueued
 * @throws ShapeError if the activations are of another model
 * @example
 * const batch = model.activations.at(1, 3);
 * batch.model.tokens.write(Int32Array.of(15496, 11, 995));
 * forward(model, batch);
 * await model.device.finished();
 * const hidden = batch.model.lnf.read(); // [1,3,C]
 */
export function forward(model: Model, batch: ActivationSet, beforeLayer?: (layer: number) => void): void {
  const { device, config, weights } = model;
  const { tokens, embedded, lnf, lnfMean, lnfRstd } = batch.model;
  const [wte, wpe] = [weights.get('wte'), weights.get('wpe')];
  embeddingForward(device, { out: embedded, tokens, wte, wpe, V: config.vocabularySize });

  for (const [index, { gelu, residual2, residual3 }] of batch.layers.entries()) {
    beforeLayer?.(index);
    const { fcprojw, fcprojb } = weights.layer(index);
    attentionBranch(model, batch, index);
    openMlp(model, batch, index);
    matmulResidualForward(device, { out: residual3, in: gelu, weight: fcprojw, bias: fcprojb, residual: residual2 });
  }

  const last = { in: batch.layers.at(-1)!.residual3, weight: weights.get('lnfw'), bias: weights.get('lnfb') };
  layernormForward(device, { out: lnf, mean: lnfMean, rstd: lnfRstd, ...last });
}

/** Recomputes the activations that backward reads of a layer and the set did not keep (--recompute): the same ops and bits. */
export function recomputeLayer(model: Model, batch: ActivationSet, index: number): void {
  // The activations of the last layer are still in memory.
  if (batch.recompute === 'none' || index === batch.layers.length - 1) return;
  if (batch.recompute === 'block') attentionBranch(model, batch, index);
  openMlp(model, batch, index);
}

/** The residual stream that a layer reads. */
export const residualBefore = (batch: ActivationSet, index: number): Tensor =>
  index === 0 ? batch.model.embedded : batch.layers[index - 1]!.residual3;

/** From the residual stream before a layer to the one after its attention, and to ln2. */
function attentionBranch({ device, weights }: Model, batch: ActivationSet, index: number): void {
  const { ln1, ln1Mean, ln1Rstd, qkv, attention, lse, residual2, ln2, ln2Mean, ln2Rstd } = batch.layers[index]!;
  const residual = residualBefore(batch, index);
  const w = weights.layer(index);
  layernormForward(device, { out: ln1, mean: ln1Mean, rstd: ln1Rstd, in: residual, weight: w.ln1w, bias: w.ln1b });
  matmulForward(device, { out: qkv, in: ln1, weight: w.qkvw, bias: w.qkvb });
  attentionForward(device, { out: attention, lse, qkv });
  matmulResidualForward(device, { out: residual2, in: attention, weight: w.attprojw, bias: w.attprojb, residual });
  layernormForward(device, { out: ln2, mean: ln2Mean, rstd: ln2Rstd, in: residual2, weight: w.ln2w, bias: w.ln2b });
}

/** From ln2 to fc and its GELU, the 4C wide middle of the MLP. */
function openMlp({ device, weights }: Model, batch: ActivationSet, index: number): void {
  const { ln2, fc, gelu } = batch.layers[index]!;
  const { fcw, fcb } = weights.layer(index);
  matmulGeluForward(device, { out: gelu, pre: fc, in: ln2, weight: fcw, bias: fcb });
}
