// Learned skips and value embeddings (docs/windows.md). With learned skips, a layer's input is a weighted sum of three streams: the
// residual stream, the embedding and, in the second half of the layers, an earlier layer's output.
import type { Tensor } from '../native/tensor.ts';
import { embeddingBackward, residualForward, streamSumBackward, streamSumForward } from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import { skippedFrom, valueEmbeddingOf } from './architecture.ts';
import type { ParameterArena } from './arena.ts';
import type { Model } from './model.ts';
import { stored, transpose } from './norm.ts';
import { need, type Operand } from './operands.ts';
import { valueTable } from './parameters.ts';
import type { ValueMix } from './positions.ts';

const residualBefore = (batch: ActivationSet, index: number): Tensor =>
  index === 0 ? batch.model.embedded : batch.layers[index - 1]!.residual3;

/** The input of a layer, to which the layer adds its output: a sum of streams or, in GPT-2, the residual stream before the layer. */
export const inputOf = (batch: ActivationSet, index: number): Tensor =>
  batch.layers[index]!.stream ?? residualBefore(batch, index);

/** The operands of a layer's sum of streams; undefined for a model without learned skips. */
function sumOf({ weights }: Model, batch: ActivationSet, index: number) {
  const { streamw: factors } = weights.layer(index);
  const from = skippedFrom(index, batch.layers.length);
  const skip = from === undefined ? null : batch.layers[from]!.residual3;
  return factors && { in: residualBefore(batch, index), skip, embedded: batch.model.embedded, factors };
}

/** Computes a layer's input as a sum of streams; does nothing in a model without learned skips. */
export function sumStreams(model: Model, batch: ActivationSet, index: number): void {
  const { stream: out } = batch.layers[index]!;
  const sum = sumOf(model, batch, index);
  if (out && sum) streamSumForward(model.device, { out, ...sum });
}

/** Memory for the gradient of a layer's input. With a skip, the gradient is kept until backward reaches the layer that the skip reads. */
export function inputGradient(batch: ActivationSet, index: number, residual: Operand): Operand {
  const { dembedded, dlater, dresidual } = batch.backward!;
  if (!dembedded) return residual;
  const from = skippedFrom(index, batch.layers.length);
  if (from === undefined || from === index - 1) return { plain: dresidual };
  return { plain: dlater!.view([batch.B, batch.T, dembedded.shape[2]!], from * dembedded.count) };
}

/** Computes the gradient of the residual stream before a layer, in the layouts of `din`, from the gradient of the layer's input. */
export function sumStreamsBackward(
  model: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { index, din, accumulate }: { readonly index: number; readonly din: Operand; readonly accumulate: boolean },
): void {
  const { device, weights } = model;
  const sum = sumOf(model, batch, index);
  const { dembedded } = batch.backward!;
  if (!sum || !dembedded) return;
  const gradientOf = (layer: number) => need(inputGradient(batch, layer, din), 'plain');
  const last = batch.layers.length - 1;
  // Only layer `reader` could read the output of layer index - 1 through a skip; it has a skip if it is in the second half.
  const reader = last + 1 - index;
  const isSkipped = index > 0 && skippedFrom(reader, last + 1) === index - 1;
  const plain = need(din, 'plain');
  streamSumBackward(device, {
    ...{ din: plain, ...stored(din), dembedded, dfactors: gradients.get(`h.${index}.streamw`) },
    ...{ dout: gradientOf(index), later: isSkipped ? gradientOf(reader) : null },
    ...{ laterFactors: isSkipped ? weights.get(`h.${reader}.streamw`) : null, ...sum, accumulate },
  });
  transpose(device, din);
  // The residual stream before the first layer is the embedding, so the two gradients are added.
  if (index === 0) residualForward(device, { out: plain, a: plain, b: dembedded });
}

/** A layer's attention values, its value embedding, and their factors; undefined for a model without value embeddings. */
export function valuesOf({ config, weights }: Model, batch: ActivationSet, index: number): ValueMix | undefined {
  const { valuew: factors } = weights.layer(index);
  const values = batch.layers[index]!.values;
  if (!factors || !values) return undefined;
  const table = valueEmbeddingOf(index, config.layers, config.valueEmbeddings);
  const all = batch.model.valueEmbedded!;
  const embedded = table === undefined ? null : all.view(values.shape, table * values.count);
  return { factors, values, embedded };
}

/** Adds `dout`, the gradient of a layer's value embedding [B,T,C], to the gradient of the embedding's table. */
export function valueEmbeddingBackward(
  { device, config }: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { index, dout, accumulate }: { readonly index: number; readonly dout: Tensor; readonly accumulate: boolean },
): void {
  const table = valueEmbeddingOf(index, config.layers, config.valueEmbeddings);
  if (table === undefined) return;
  const dwte = gradients.get(valueTable(table));
  // The op adds to dwte, which two layers share. Backward reaches the later layer first, so the later layer clears dwte.
  const isFirst = index >= config.layers - config.valueEmbeddings!;
  if (isFirst && !accumulate) device.call('fillZero', { destination: dwte.pointer, bytes: dwte.bytes });
  const { tokens } = batch.model;
  embeddingBackward(device, { dwte, dwpe: null, dout, tokens, V: config.vocabularySize, accumulate });
}
