// The head: logits = lnf * wte^T and their cross-entropy, over the tokens in chunks, so that the logits of a large batch
// never lie in memory as a whole. In training each chunk's backward follows at once, while its logits are there.

import type { Tensor } from '../native/buffer.ts';
import { classifier } from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import type { ParameterArena } from './arena.ts';
import type { Model } from './model.ts';

interface Chunk {
  readonly first: boolean;
  readonly lnf: Tensor;
  readonly logits: Tensor;
  /** The chunk's rows of any [B,T,...] tensor. */
  rows(tensor: Tensor): Tensor;
}

function* chunks({ B, T, model }: ActivationSet): Generator<Chunk> {
  const N = B * T;
  const [chunkRows, padded] = model.logits.shape as [number, number];
  for (let start = 0; start < N; start += chunkRows) {
    const count = Math.min(chunkRows, N - start);
    const rows = (tensor: Tensor): Tensor => {
      const width = tensor.count / N;
      return tensor.view(width === 1 ? [count] : [count, width], start * width);
    };
    yield { first: start === 0, lnf: rows(model.lnf), logits: model.logits.view([count, padded]), rows };
  }
}

/** From `lnf` and `targets` to `losses` [B,T]. */
export function headForward({ device, config, weights }: Model, batch: ActivationSet): void {
  const { losses, targets } = batch.model;
  for (const { lnf, logits, rows } of chunks(batch)) {
    classifier(device, {
      losses: rows(losses),
      din: null,
      dweight: null,
      logits,
      in: lnf,
      weight: weights.get('wte'),
      targets: rows(targets),
      V: config.vocabularySize,
      dloss: 0,
      accumulate: false,
    });
  }
}

/**
 * From `lnf` and `targets` to `losses`, the gradient of lnf in `batch.backward.dbranch` and of wte (overwritten, or added
 * to if `accumulate`). `dloss` is the gradient of the total loss by each token's loss.
 */
export function headForwardBackward(
  { device, config, weights }: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { dloss, accumulate }: { dloss: number; accumulate: boolean },
): void {
  if (!batch.backward) throw new Error('these activations were made for inference');
  const { losses, targets } = batch.model;
  for (const { first, lnf, logits, rows } of chunks(batch)) {
    classifier(device, {
      losses: rows(losses),
      din: rows(batch.backward.dbranch),
      dweight: gradients.get('wte'),
      logits,
      in: lnf,
      weight: weights.get('wte'),
      targets: rows(targets),
      V: config.vocabularySize,
      dloss,
      accumulate: accumulate || !first,
    });
  }
}
