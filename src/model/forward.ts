// GPT-2's forward pass, op by op as in the paper (Radford et al. 2019): embed, then per layer attention and MLP, each
// behind a layernorm and added to the residual stream, then the final layernorm. What follows it is the head (head.ts).
import { attentionForward } from '../ops/attention.ts';
import { embeddingForward } from '../ops/embedding.ts';
import { layernormForward } from '../ops/layernorm.ts';
import { matmulForward, matmulGeluForward, matmulResidualForward } from '../ops/matmul.ts';
import type { ActivationSet } from './activations.ts';
import type { Model } from './model.ts';

/** From `batch.model.tokens` [B,T] to `batch.model.lnf` [B,T,C]. */
export function forward({ device, config, weights }: Model, batch: ActivationSet): void {
  const { tokens, embedded, lnf, lnfMean, lnfRstd } = batch.model;
  const vocabulary = config.vocabularySize;
  embeddingForward(device, { out: embedded, tokens, wte: weights.get('wte'), wpe: weights.get('wpe'), vocabulary });

  let residual = embedded;
  for (const [index, layer] of batch.layers.entries()) {
    const w = weights.layer(index);

    layernormForward(device, {
      out: layer.ln1,
      mean: layer.ln1Mean,
      rstd: layer.ln1Rstd,
      input: residual,
      weight: w.ln1w,
      bias: w.ln1b,
    });
    matmulForward(device, { out: layer.qkv, input: layer.ln1, weight: w.qkvw, bias: w.qkvb });
    attentionForward(device, { out: layer.attention, lse: layer.lse, qkv: layer.qkv });
    matmulResidualForward(device, {
      out: layer.residual2,
      input: layer.attention,
      weight: w.attprojw,
      bias: w.attprojb,
      residual,
    });

    layernormForward(device, {
      out: layer.ln2,
      mean: layer.ln2Mean,
      rstd: layer.ln2Rstd,
      input: layer.residual2,
      weight: w.ln2w,
      bias: w.ln2b,
    });
    matmulGeluForward(device, { out: layer.gelu, pre: layer.fc, input: layer.ln2, weight: w.fcw, bias: w.fcb });
    matmulResidualForward(device, {
      out: layer.residual3,
      input: layer.gelu,
      weight: w.fcprojw,
      bias: w.fcprojb,
      residual: layer.residual2,
    });

    residual = layer.residual3;
  }

  layernormForward(device, {
    out: lnf,
    mean: lnfMean,
    rstd: lnfRstd,
    input: residual,
    weight: weights.get('lnfw'),
    bias: weights.get('lnfb'),
  });
}
