// GPT-2's forward pass, op by op as in the paper (Radford et al. 2019): embed, then per layer attention and MLP, each
// behind a layernorm and added to the residual stream, then the final layernorm. What follows it is the head (head.ts).
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
 * From `batch.model.tokens` [B,T] to `batch.model.lnf` [B,T,C]. `layerNext` is told when what comes next is the first to read
 * a layer's weights.
 */
export function forward(model: Model, batch: ActivationSet, layerNext?: (layer: number) => void): void {
  const { device, config, weights } = model;
  const { tokens, embedded, lnf, lnfMean, lnfRstd } = batch.model;
  const vocabulary = config.vocabularySize;
  embeddingForward(device, { out: embedded, tokens, wte: weights.get('wte'), wpe: weights.get('wpe'), V: vocabulary });

  for (const [index, layer] of batch.layers.entries()) {
    layerNext?.(index);
    const w = weights.layer(index);
    attentionBranch(model, batch, index);
    openMlp(model, batch, index);
    matmulResidualForward(device, {
      out: layer.residual3,
      in: layer.gelu,
      weight: w.fcprojw,
      bias: w.fcprojb,
      residual: layer.residual2,
    });
  }

  layernormForward(device, {
    out: lnf,
    mean: lnfMean,
    rstd: lnfRstd,
    in: batch.layers.at(-1)!.residual3,
    weight: weights.get('lnfw'),
    bias: weights.get('lnfb'),
  });
}

/** Computes again what backward reads of a layer and the set did not keep (--recompute): the same ops, so the same bits. */
export function recomputeLayer(model: Model, batch: ActivationSet, index: number): void {
  // The layer that forward ended with is still there.
  if (batch.recompute === 'none' || index === batch.layers.length - 1) return;
  if (batch.recompute === 'block') attentionBranch(model, batch, index);
  openMlp(model, batch, index);
}

/** The residual stream that a layer reads. */
export const residualBefore = (batch: ActivationSet, index: number): Tensor =>
  index === 0 ? batch.model.embedded : batch.layers[index - 1]!.residual3;

/** From the residual stream before a layer to the one after its attention, and to ln2. */
function attentionBranch({ device, weights }: Model, batch: ActivationSet, index: number): void {
  const layer = batch.layers[index]!;
  const residual = residualBefore(batch, index);
  const w = weights.layer(index);
  layernormForward(device, {
    out: layer.ln1,
    mean: layer.ln1Mean,
    rstd: layer.ln1Rstd,
    in: residual,
    weight: w.ln1w,
    bias: w.ln1b,
  });
  matmulForward(device, { out: layer.qkv, in: layer.ln1, weight: w.qkvw, bias: w.qkvb });
  attentionForward(device, { out: layer.attention, lse: layer.lse, qkv: layer.qkv });
  matmulResidualForward(device, {
    out: layer.residual2,
    in: layer.attention,
    weight: w.attprojw,
    bias: w.attprojb,
    residual,
  });
  layernormForward(device, {
    out: layer.ln2,
    mean: layer.ln2Mean,
    rstd: layer.ln2Rstd,
    in: layer.residual2,
    weight: w.ln2w,
    bias: w.ln2b,
  });
}

/** From ln2 to fc and its GELU, the 4C wide middle of the MLP. */
function openMlp({ device, weights }: Model, batch: ActivationSet, index: number): void {
  const { ln2, fc, gelu } = batch.layers[index]!;
  const { fcw, fcb } = weights.layer(index);
  matmulGeluForward(device, { out: gelu, pre: fc, in: ln2, weight: fcw, bias: fcb });
}
