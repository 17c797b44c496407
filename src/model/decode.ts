// The forward pass for generation: it runs only the newest tokens of each text, over a cache of the earlier tokens' keys and values.
// The results equal those of forward.ts. For a model with GPT-2's parts, the ops are optimized for one new token in each text.
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import { attentionCachedForward, normMatmulForward, softcapForward } from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import { architectureOf } from './architecture.ts';
import { embed } from './forward.ts';
import { headOf } from './head.ts';
import type { CacheView } from './key-value-cache.ts';
import { type LinearForward, linearForward } from './linear.ts';
import { windowOf } from './mask.ts';
import type { Model } from './model.ts';
import { type NormForward, normForward } from './norm.ts';
import { need } from './operands.ts';
import { inputOf, sumStreams, valuesOf } from './streams.ts';

/**
 * Enqueues the forward pass of T tokens in each of a cache's B texts, from each text's position on. Writes the tokens' keys and values
 * into the cache, and leaves the positions unchanged.
 * @param first the first of the B*T rows for which logits are computed; `rows`: the number of rows with logits
 * @returns logits [rows,Vp]
 */
export function decode(
  model: Model,
  batch: ActivationSet,
  { tokens, positions, layers, mlp }: CacheView,
  { first, rows }: { first: number; rows: number },
): Tensor {
  const { device, config, weights, queryKeyTransform } = model;
  const { channels } = config;
  embed(model, batch, { tokens: null, texts: tokens, positions, S: tokens.shape[1]! - 1 });
  for (const [index, { keys, values }] of layers.entries()) {
    const { ln1, ln1Rstd, qkv, qkRstd, attention, residual2 } = batch.layers[index]!;
    const { ln2Mean, ln2Rstd, fc, residual3 } = batch.layers[index]!;
    // In dtype fp8 the activation's input and output have one byte an element in the batch, so plain memory for both is in the cache.
    const inCache = (half: number) => mlp?.view([batch.B, batch.T, 4 * channels], (half * mlp.count) / 2);
    const activated = inCache(0) ?? need(batch.operands.layers[index]!.activated, 'plain');
    const w = weights.layer(index);
    sumStreams(model, batch, index);
    const residual = inputOf(batch, index);
    const norm1 = { in: residual, weight: w.ln1w, bias: w.ln1b, normed: ln1, rstd: ln1Rstd };
    matmulAfterNorm(device, norm1, { out: qkv, weight: w.qkvw, bias: w.qkvb });
    queryKeyTransform?.forward(qkv, qkRstd, valuesOf(model, batch, index), positions);
    attentionCachedForward(device, { out: attention, keys, values, qkv, positions, window: windowOf(config, index) });
    const attproj = { in: { plain: attention }, weight: w.attprojw, bias: w.attprojb };
    linearForward(device, { out: { plain: residual2 }, ...attproj, residual });
    // The second norm overwrites ln1, which no later op reads, because in dtype fp8 there is no memory for a plain ln2.
    const norm2 = { in: residual2, weight: w.ln2w, bias: w.ln2b, normed: ln1, mean: ln2Mean, rstd: ln2Rstd };
    const fcMatmul = { weight: w.fcw, bias: w.fcb, activates: true, pre: fc && (inCache(1) ?? fc) };
    matmulAfterNorm(device, norm2, { out: activated, ...fcMatmul });
    const fcproj = { in: { plain: activated }, weight: w.fcprojw, bias: w.fcprojb };
    linearForward(device, { out: { plain: residual3 }, ...fcproj, residual: residual2 });
  }
  const { logits: allLogits, lnf, lnfRstd } = batch.model;
  const logits = allLogits.view([rows, allLogits.shape.at(-1)!]);
  const input = batch.layers.at(-1)!.residual3.view([rows, channels], first * channels);
  const last = { in: input, weight: weights.get('lnfw'), bias: weights.find('lnfb') };
  const normed = { normed: lnf.view([rows, channels]), rstd: lnfRstd.view([rows]) };
  matmulAfterNorm(device, { ...last, ...normed }, { out: logits, ...headOf(weights) });
  const { softcap: cap } = architectureOf(config);
  if (cap > 0) softcapForward(device, { out: logits, in: logits, cap });
  return logits;
}

/**
 * Enqueues a norm, a matmul and, if `activates`, an activation. One op computes all of them if the norm has a bias (it is layernorm), and
 * the activation is absent or has `pre` (it is GELU). Otherwise two ops run, the first of which writes the normalized rows to `normed`.
 */
function matmulAfterNorm(
  device: Device,
  { normed, ...norm }: Omit<NormForward, 'out'> & { readonly normed: Tensor },
  { out, ...matmul }: Omit<LinearForward, 'out' | 'in' | 'fp8' | 'residual'> & { readonly out: Tensor },
): void {
  const { weight, bias, activates = false, pre = null } = matmul;
  if (norm.bias && (pre || !activates)) {
    const activation = pre ? GPT2_ACTIVATION.GPT2_GELU : GPT2_ACTIVATION.GPT2_NO_ACTIVATION;
    const normArguments = { in: norm.in, normWeight: norm.weight, normBias: norm.bias };
    normMatmulForward(device, { out, pre, ...normArguments, weight, bias, activation });
    return;
  }
  normForward(device, { out: { plain: normed }, ...norm });
  linearForward(device, { out: { plain: out }, in: { plain: normed }, ...matmul });
}
