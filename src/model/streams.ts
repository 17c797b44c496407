// The learned additions to a layer (docs/windows.md): the sum of streams that a layer reads, and the value embeddings.
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

/** The stream that a layer reads and adds to. */
export const inputOf = (batch: ActivationSet, index: number): Tensor =>
  batch.layers[index]!.stream ?? residualBefore(batch, index);

/** The tensors of a layer's sum; undefined for a layer that reads the residual stream alone. */
function sumOf({ weights }: Model, batch: ActivationSet, index: number) {
  const { streamw: factors } = weights.layer(index);
  const from = skippedFrom(index, batch.layers.length);
  const skip = from === undefined ? null : batch.layers[from]!.residual3;
  return factors && { in: residualBefore(batch, index), skip, embedded: batch.model.embedded, factors };
}

/** Computes the input of a layer, if the layer sums streams. */
export function sumStreams(model: Model, batch: ActivationSet, index: number): void {
  const { stream: out } = batch.layers[index]!;
  const sum = sumOf(model, batch, index);
  if (out && sum) streamSumForward(model.device, { out, ...sum });
}

/** The gradient of a layer's input. For a layer with a skip it is kept until backward reaches the skip's other end. */
export function inputGradient(batch: ActivationSet, index: number, residual: Operand): Operand {
  const { dembedded, dlater, dresidual } = batch.backward!;
  if (!dembedded) return residual;
  const from = skippedFrom(index, batch.layers.length);
  if (from === undefined || from === index - 1) return { plain: dresidual };
  return { plain: dlater!.view([batch.B, batch.T, dembedded.shape[2]!], from * dembedded.count) };
}

/** Computes the gradient of the residual stream before a layer from its input's gradient, in the layouts of `din`. */
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
  // The layer whose skip is the output of layer index - 1: the middle layer itself, or a layer after the middle.
  const reader = last + 1 - index;
  const isSkipped = index > 0 && skippedFrom(reader, last + 1) === index - 1;
  const plain = need(din, 'plain');
  streamSumBackward(device, {
    ...{ din: plain, ...stored(din), dembedded, dfactors: gradients.get(`h.${index}.streamw`) },
    ...{ dout: gradientOf(index), later: isSkipped ? gradientOf(reader) : null },
    ...{ laterFactors: isSkipped ? weights.get(`h.${reader}.streamw`) : null, ...sum, accumulate },
  });
  transpose(device, din);
  // The first layer reads the embedding as its residual stream too.
  if (index === 0) residualForward(device, { out: plain, a: plain, b: dembedded });
}

/** The value embedding of a layer, and its factors; undefined for a model without value embeddings. */
export function valuesOf({ config, weights }: Model, batch: ActivationSet, index: number): ValueMix | undefined {
  const { valuew: factors } = weights.layer(index);
  const values = batch.layers[index]!.values;
  if (!factors || !values) return undefined;
  const table = valueEmbeddingOf(index, config.layers, config.valueEmbeddings);
  const all = batch.model.valueEmbedded!;
  const embedded = table === undefined ? null : all.view(values.shape, table * values.count);
  return { factors, values, embedded };
}

/** Adds the gradient of a layer's value embedding, `dout`, to its table's gradient. */
export function valueEmbeddingBackward(
  { device, config }: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { index, dout, accumulate }: { readonly index: number; readonly dout: Tensor; readonly accumulate: boolean },
): void {
  const table = valueEmbeddingOf(index, config.layers, config.valueEmbeddings);
  if (table === undefined) return;
  const dwte = gradients.get(valueTable(table));
  // The op adds to dwte. Backward reaches the later one of a table's two layers first, which clears dwte.
  const isFirst = index >= config.layers - config.valueEmbeddings!;
  if (isFirst && !accumulate) device.call('fillZero', { destination: dwte.pointer, bytes: dwte.bytes });
  const { tokens } = batch.model;
  embeddingBackward(device, { dwte, dwpe: null, dout, tokens, V: config.vocabularySize, accumulate });
}
