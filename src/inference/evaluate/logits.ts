import { checkArguments, checkGiven, checkValue, whole } from '../../base/checks/given.ts';
import { ShapeError } from '../../base/errors.ts';
import { writeBatch } from '../../data/batches/batch.ts';
import { forward } from '../../model/forward.ts';
import { plainLogits } from '../../model/head.ts';
import type { Model } from '../../model/model.ts';

/**
 * The logits of each token of the vocabulary after each input, in fp32: [B,T,V]. On a GPU in bf16 the logits are rounded to bf16.
 * @param batch `inputs` [B,T], such as a loader's batch
 * @param sizes `sequence`: T. Default: the T of the model's activations if T divides the number of inputs, else one sequence
 * @throws ShapeError for inputs that do not fit the model's activations, or a token outside the vocabulary
 * @example
 * const values = await logits(model, { inputs: Int32Array.of(15496, 11, 995) }); // [1,3,V]
 * const afterLast = values.subarray(-model.config.vocabularySize);
 */
export async function logits(
  model: Model,
  batch: { readonly inputs: Int32Array },
  sizes: { readonly sequence?: number | undefined } = {},
): Promise<Float32Array> {
  checkValue('batch', 'object', batch);
  const { inputs } = batch;
  checkArguments({ model, inputs });
  checkGiven(sizes, {}, { sequence: whole(1) });
  const most = model.activations.sequence;
  const { sequence: T = inputs.length % most === 0 ? most : inputs.length } = sizes;
  if (inputs.length === 0 || inputs.length % T !== 0)
    throw new ShapeError(`${inputs.length} inputs are no sequences of ${T} tokens`);
  const { activations, device, config } = model;
  const { vocabularySize: V } = config;
  return activations.inTurn(async () => {
    const set = activations.at(inputs.length / T, T);
    writeBatch(model, set, { inputs, targets: inputs });
    forward(model, set);
    const all = new Float32Array(inputs.length * V);
    let row = 0;
    for (const { logits } of plainLogits(model, set)) {
      await device.finished();
      const [rows, padded] = logits.shape as [number, number];
      const values = logits.numbers();
      for (let at = 0; at < rows; at++) all.set(values.subarray(at * padded, at * padded + V), row++ * V);
    }
    return all;
  });
}
