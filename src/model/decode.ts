// GPT-2's forward pass for growing texts: the newest tokens of each, over a cache of the earlier ones. The model is that of
// forward.ts; the ops are those that are fast for one token at a time.
import type { Tensor } from '../native/buffer.ts';
import {
  attentionCachedForward,
  embeddingAtForward,
  layernormMatmulForward,
  layernormMatmulGeluForward,
  matmulResidualForward,
} from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import { residualBefore } from './forward.ts';
import type { CacheView } from './key-value-cache.ts';
import type { Model } from './model.ts';

/**
 * Runs T tokens from the position of each of the B texts of a cache. Their keys and values go into the cache; positions stay.
 * @param first the first row of [B*T] to compute logits for; `rows`: how many
 * @returns logits [rows,Vp]
 */
export function decode(
  { device, config, weights }: Model,
  batch: ActivationSet,
  { tokens, positions, layers }: CacheView,
  { first, rows }: { first: number; rows: number },
): Tensor {
  const wte = weights.get('wte');
  const embedding = { out: batch.model.embedded, tokens, positions, wte, wpe: weights.get('wpe') };
  embeddingAtForward(device, { ...embedding, V: config.vocabularySize });
  for (const [index, { keys, values }] of layers.entries()) {
    const { qkv, attention, residual2, fc, gelu, residual3 } = batch.layers[index]!;
    const w = weights.layer(index);
    const residual = residualBefore(batch, index);
    const ln1 = { in: residual, normWeight: w.ln1w, normBias: w.ln1b };
    layernormMatmulForward(device, { out: qkv, ...ln1, weight: w.qkvw, bias: w.qkvb });
    attentionCachedForward(device, { out: attention, keys, values, qkv, positions });
    const attproj = { in: attention, weight: w.attprojw, bias: w.attprojb };
    matmulResidualForward(device, { out: residual2, ...attproj, residual });
    const ln2 = { in: residual2, normWeight: w.ln2w, normBias: w.ln2b };
    layernormMatmulGeluForward(device, { out: gelu, pre: fc, ...ln2, weight: w.fcw, bias: w.fcb });
    const fcproj = { in: gelu, weight: w.fcprojw, bias: w.fcprojb };
    matmulResidualForward(device, { out: residual3, ...fcproj, residual: residual2 });
  }
  const { channels } = config;
  const logits = batch.model.logits.view([rows, batch.model.logits.shape.at(-1)!]);
  const input = batch.layers.at(-1)!.residual3.view([rows, channels], first * channels);
  const lnf = { in: input, normWeight: weights.get('lnfw'), normBias: weights.get('lnfb') };
  layernormMatmulForward(device, { out: logits, ...lnf, weight: wte, bias: null });
  return logits;
}
