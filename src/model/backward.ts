// The backward pass: forward.ts in reverse. `dresidual` is the gradient of the residual stream. A branch (attention or the MLP) begins with
// a norm, whose backward adds the branch's gradient to `dresidual`. The operands' layouts (operands.ts) decide which matmuls are in FP8.
import type { Tensor } from '../native/tensor.ts';
import { attentionBackward, embeddingBackward } from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import type { ParameterArena } from './arena.ts';
import { recomputeLayer } from './forward.ts';
import { linearBackwardInput, linearBackwardWeight } from './linear.ts';
import { firstOf } from './mask.ts';
import type { Model } from './model.ts';
import { normBackward } from './norm.ts';
import type { Operand } from './operands.ts';
import { headMatrix } from './parameters.ts';
import { inputGradient, inputOf, sumStreamsBackward, valueEmbeddingBackward, valuesOf } from './streams.ts';

/**
 * Enqueues the backward pass, from the gradient of lnf (in `batch.backward.dbranch`) to the gradient of every parameter. The head has
 * already written the gradient of its matrix; in GPT-2 this is wte, to which the embedding's gradient is added. Other gradients are
 * overwritten, or added to if `accumulate`. `layerDone` is called after the last op that changes a layer's gradients.
 */
export function backward(
  model: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { accumulate, layerDone }: { accumulate: boolean; layerDone?: (layer: number) => void },
): void {
  const { device, weights, queryKeyTransform } = model;
  if (!batch.backward) throw new Error('these activations were made for inference');
  const { dbranch, dqkv, dembedded } = batch.backward;
  if (dembedded) device.call('fillZero', { destination: dembedded.pointer, bytes: dembedded.bytes });
  const { dresidual, dfc, weightFp8 } = batch.operands;
  const { lnfMean, lnfRstd } = batch.model;
  const stream = batch.backward.dresidual;
  // The layouts in which `dresidual` is needed: attention's matmuls read no columnwise copy, the embedding reads only the plain layout.
  const forAttention: Operand = { ...dresidual, columnwise: undefined };
  const forEmbedding: Operand = { plain: stream };

  const lnf = { in: batch.layers.at(-1)!.residual3, weight: weights.get('lnfw'), mean: lnfMean, rstd: lnfRstd };
  const dlnf = { din: dresidual, dweight: gradients.get('lnfw'), dbias: gradients.find('lnfb') };
  normBackward(device, { ...dlnf, dout: dbranch, dresidual: null, ...lnf, accumulate });

  for (const [index, layer] of [...batch.layers.entries()].reverse()) {
    const { ln1Mean, ln1Rstd, qkv, qkRstd, attention, lse, residual2, ln2Mean, ln2Rstd } = layer;
    const { ln1, ln2, activated, fcFp8, fcprojFp8 } = batch.operands.layers[index]!;
    const w = weights.layer(index);
    const d = gradients.layer(index);
    const weightGradient = (dweight: Tensor, dbias: Tensor, dout: Operand, input: Operand) =>
      linearBackwardWeight(device, { dweight, dbias, dout, in: input, N: batch.B * batch.T, accumulate });
    recomputeLayer(model, batch, index);

    weightGradient(d.fcprojw, d.fcprojb, dresidual, activated);
    const fcproj = { dout: dresidual, weight: w.fcprojw, fp8: fcprojFp8 };
    linearBackwardInput(device, { din: dfc, ...fcproj, pre: layer.fc, activated });
    weightGradient(d.fcw, d.fcb, dfc, ln2);
    linearBackwardInput(device, { din: { plain: dbranch }, dout: dfc, weight: w.fcw, fp8: fcFp8 });
    const norm2 = { in: residual2, weight: w.ln2w, mean: ln2Mean, rstd: ln2Rstd };
    const throughNorm = { dout: dbranch, dresidual: stream, accumulate };
    normBackward(device, { din: forAttention, ...throughNorm, dweight: d.ln2w, dbias: d.ln2b, ...norm2 });

    weightGradient(d.attprojw, d.attprojb, forAttention, { plain: attention });
    linearBackwardInput(device, { din: { plain: dbranch }, dout: forAttention, weight: w.attprojw, fp8: weightFp8 });
    attentionBackward(device, { dqkv, dout: dbranch, out: attention, qkv, lse, first: firstOf(batch, index) });
    // attentionBackward has read `dbranch`, so its memory is free for the gradient of the value embedding.
    const ofValues = d.valuew ? { dvalueFactors: d.valuew, dembedded: dbranch, accumulate } : {};
    queryKeyTransform?.backward(dqkv, { qkv, rstd: qkRstd, mix: valuesOf(model, batch, index) }, ofValues);
    valueEmbeddingBackward(model, batch, gradients, { index, dout: dbranch, accumulate });
    weightGradient(d.qkvw, d.qkvb, { plain: dqkv }, ln1);
    linearBackwardInput(device, { din: { plain: dbranch }, dout: { plain: dqkv }, weight: w.qkvw });
    const norm1 = { in: inputOf(batch, index), weight: w.ln1w, mean: ln1Mean, rstd: ln1Rstd };
    const din = index > 0 ? dresidual : forEmbedding;
    const dinput = inputGradient(batch, index, din);
    normBackward(device, { din: dinput, ...throughNorm, dweight: d.ln1w, dbias: d.ln1b, ...norm1 });
    sumStreamsBackward(model, batch, gradients, { index, din, accumulate });
    layerDone?.(index);
  }
  embeddingGradients(model, batch, gradients, { dembedded: stream, accumulate });
}

/** Gradients of the embedding tables from `dembedded`, the gradient of the first layer's input. An embedding norm changes `dembedded`. */
function embeddingGradients(
  { device, config, weights }: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { dembedded, accumulate }: { dembedded: Tensor; accumulate: boolean },
): void {
  const { tokens, unnormed, embeddedRstd } = batch.model;
  if (unnormed && embeddedRstd) {
    const norm = { in: unnormed, weight: weights.get('lnew'), rstd: embeddedRstd, dresidual: null, accumulate };
    normBackward(device, { din: { plain: dembedded }, dweight: gradients.get('lnew'), dout: dembedded, ...norm });
  }
  const [dwte, dwpe] = [gradients.get('wte'), gradients.find('wpe') ?? null];
  // The op adds to dwte, so dwte is cleared first, unless a tied head or an earlier micro-batch has written dwte.
  const isUntied = weights.find(headMatrix) !== undefined;
  if (isUntied && !accumulate) device.call('fillZero', { destination: dwte.pointer, bytes: dwte.bytes });
  embeddingBackward(device, { dwte, dwpe, dout: dembedded, tokens, V: config.vocabularySize, accumulate });
}
