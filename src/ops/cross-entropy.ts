// Softmax and cross-entropy over the vocabulary in one op, and the sum of losses into the step block. See cuda/gpt2.h.

import { GPT2_STEP } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/**
 * losses[i] = -log softmax(logits[i])[targets[i]] over the first `vocabulary` columns; dlogits (null: not wanted; may be
 * logits) = (softmax - onehot) * dloss, zero in the padding columns.
 */
export function crossEntropy(
  device: Device,
  {
    losses,
    dlogits,
    logits,
    targets,
    vocabulary,
    dloss,
  }: {
    losses: Tensor;
    dlogits: Tensor | null;
    logits: Tensor;
    targets: Tensor;
    vocabulary: number;
    dloss: number;
  },
): void {
  const { N, V: padded } = dimensions('cross_entropy', {
    logits: [logits, device.elementType, 'N V'],
    dlogits: [dlogits, device.elementType, 'N V'],
    losses: [losses, 'fp32', 'N'],
    targets: [targets, 'int32', 'N'],
  });
  expect('cross_entropy', vocabulary <= padded, `V = ${vocabulary} is over the ${padded} columns of logits`);
  device.call('crossEntropy', {
    losses: losses.pointer,
    dlogits: dlogits?.pointer ?? null,
    logits: logits.pointer,
    targets: targets.pointer,
    N,
    V: vocabulary,
    Vp: padded,
    dloss,
  });
}

/** The step block's loss = or += (accumulate) scale * the sum of losses. */
export function lossSum(
  device: Device,
  { step, losses, scale, accumulate }: { step: Tensor; losses: Tensor; scale: number; accumulate: boolean },
): void {
  const { N } = dimensions('loss_sum', { losses: [losses, 'fp32', 'N'] });
  expect('loss_sum', step.count === GPT2_STEP.GPT2_STEP_SIZE, `step has ${step.count} elements`);
  device.call('lossSum', { step: step.pointer, losses: losses.pointer, N, scale, accumulate: accumulate ? 1 : 0 });
}
