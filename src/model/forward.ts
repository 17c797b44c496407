// The forward pass of GPT-2 (Radford et al. 2019): embedding; in each layer attention and MLP, which read a norm of the residual
// stream and add to the stream; the final norm. The head is in head.ts. The alternatives of a modern GPT (architecture.ts) are in
// norm.ts, linear.ts, positions.ts and streams.ts. linear.ts runs a matmul in FP8 if its operands have FP8 copies.
import { attentionForward, embeddingForward } from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import { linearForward } from './linear.ts';
import { firstOf } from './mask.ts';
import type { Model } from './model.ts';
import { normForward } from './norm.ts';
import type { Operand } from './operands.ts';
import { valueTable } from './parameters.ts';
import { inputOf, sumStreams, valuesOf } from './streams.ts';

/**
 * Enqueues the forward pass from `batch.model.tokens` [B,T] to `batch.model.lnf` [B,T,C], the final hidden states. Logits and
 * losses come from the head: `lossesOf`, `meanLoss`.
 * @param beforeLayer called with a layer's index before ops that read the layer's weights are enqueued; the head counts as one more layer
 * @throws ShapeError if the activations belong to another model
 * @example
 * const batch = model.activations.at(1, 3);
 * batch.model.tokens.write(Int32Array.of(15496, 11, 995));
 * forward(model, batch);
 * await model.device.finished();
 * const hidden = batch.model.lnf.read(); // [1,3,C]
 */
export function forward(model: Model, batch: ActivationSet, beforeLayer?: (layer: number) => void): void {
  const { device, weights } = model;
  const { tokens, lnfMean, lnfRstd } = batch.model;
  embed(model, batch, { tokens, texts: null, positions: null, S: batch.T });

  for (const [index, { residual2, residual3 }] of batch.layers.entries()) {
    beforeLayer?.(index);
    const { fcprojw, fcprojb } = weights.layer(index);
    const { ln2, activated, fcprojFp8 } = batch.operands.layers[index]!;
    attentionBranch(model, batch, index);
    mlpNorm(model, batch, index, ln2);
    openMlp(model, batch, index);
    const fcproj = { in: activated, weight: fcprojw, fp8: fcprojFp8, bias: fcprojb };
    linearForward(device, { out: { plain: residual3 }, ...fcproj, residual: residual2 });
  }

  beforeLayer?.(batch.layers.length);
  const last = { in: batch.layers.at(-1)!.residual3, weight: weights.get('lnfw'), bias: weights.find('lnfb') };
  normForward(device, { out: batch.operands.lnf, mean: lnfMean, rstd: lnfRstd, ...last });
}

/** The token ids to embed: either `tokens` [B,T], or T ids of each row of `texts` [B,S+1] from the row's entry in `positions` on. */
type Ids = Pick<Parameters<typeof embeddingForward>[1], 'tokens' | 'texts' | 'positions' | 'S'>;

/** Enqueues the embedding, which is the residual stream before the first layer, its norm if the model has one, and value embeddings. */
export function embed(
  { device, config, weights }: Model,
  { model: { unnormed, embeddedRstd, embedded, valueEmbedded } }: ActivationSet,
  ids: Ids,
): void {
  const tables = { wte: weights.get('wte'), wpe: weights.find('wpe') ?? null, V: config.vocabularySize };
  embeddingForward(device, { out: unnormed ?? embedded, ...ids, ...tables });
  for (let index = 0; index < (config.valueEmbeddings ?? 0); index++) {
    const out = valueEmbedded!.view(embedded.shape, index * embedded.count);
    embeddingForward(device, { out, ...ids, ...tables, wte: weights.get(valueTable(index)), wpe: null });
  }
  if (!unnormed || !embeddedRstd) return;
  normForward(device, { out: { plain: embedded }, rstd: embeddedRstd, in: unnormed, weight: weights.get('lnew') });
}

/** Recomputes a layer's activations that backward reads and --recompute did not keep, with the same bits as in the forward pass. */
export function recomputeLayer(model: Model, batch: ActivationSet, index: number): void {
  // The memory that layers share still has the activations of the last layer.
  if (batch.recompute === 'none' || index === batch.layers.length - 1) return;
  const { ln2 } = batch.operands.layers[index]!;
  if (batch.recompute === 'block') {
    attentionBranch(model, batch, index);
    mlpNorm(model, batch, index, ln2);
  } else if (ln2.rowwise) {
    // Recomputes only the rowwise FP8 copy, whose memory all layers share; each layer has kept the other layouts of ln2.
    mlpNorm(model, batch, index, { rowwise: ln2.rowwise });
  }
  openMlp(model, batch, index);
}

/** Enqueues a layer's attention: from the residual stream before the layer to `residual2`, the stream after attention. */
function attentionBranch(model: Model, batch: ActivationSet, index: number): void {
  const { device, weights, queryKeyTransform } = model;
  const { ln1Mean, ln1Rstd, qkv, qkRstd, attention, lse, residual2 } = batch.layers[index]!;
  const { ln1 } = batch.operands.layers[index]!;
  sumStreams(model, batch, index);
  const residual = inputOf(batch, index);
  const w = weights.layer(index);
  normForward(device, { out: ln1, mean: ln1Mean, rstd: ln1Rstd, in: residual, weight: w.ln1w, bias: w.ln1b });
  linearForward(device, { out: { plain: qkv }, in: ln1, weight: w.qkvw, fp8: batch.operands.weightFp8, bias: w.qkvb });
  queryKeyTransform?.forward(qkv, qkRstd, valuesOf(model, batch, index));
  attentionForward(device, { out: attention, lse, qkv, first: firstOf(batch, index) });
  const attproj = { in: { plain: attention }, weight: w.attprojw, bias: w.attprojb };
  linearForward(device, { out: { plain: residual2 }, ...attproj, residual });
}

/** Enqueues ln2, the norm of the residual stream after attention, in each layout of `out`: plain, rowwise FP8, columnwise FP8. */
function mlpNorm({ device, weights }: Model, batch: ActivationSet, index: number, out: Operand): void {
  const { residual2, ln2Mean, ln2Rstd } = batch.layers[index]!;
  const { ln2w, ln2b } = weights.layer(index);
  normForward(device, { out, mean: ln2Mean, rstd: ln2Rstd, in: residual2, weight: ln2w, bias: ln2b });
}

/** Enqueues the first half of the MLP: from ln2 [B,T,C] to fc and its activation [B,T,4C]. */
function openMlp({ device, weights }: Model, batch: ActivationSet, index: number): void {
  const { ln2, activated, fcFp8 } = batch.operands.layers[index]!;
  const { fcw, fcb } = weights.layer(index);
  const result = { out: activated, activates: true, pre: batch.layers[index]!.fc };
  linearForward(device, { ...result, in: ln2, weight: fcw, fp8: fcFp8, bias: fcb });
}
