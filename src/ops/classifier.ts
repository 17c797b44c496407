// The last linear layer together with softmax, cross-entropy and the way back through them. See cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/**
 * losses[i] = -log softmax(input[i] * weight^T)[targets[i]] over the first `vocabulary` rows of weight; dinput and dweight
 * (null: not wanted) are the gradients of dloss * the sum of losses, dweight = or += (accumulate). What `logits` holds
 * afterwards is the library's own.
 */
export function classifier(
  device: Device,
  {
    losses,
    dinput,
    dweight,
    logits,
    input,
    weight,
    targets,
    vocabulary,
    dloss,
    accumulate,
  }: {
    losses: Tensor;
    dinput: Tensor | null;
    dweight: Tensor | null;
    logits: Tensor;
    input: Tensor;
    weight: Tensor;
    targets: Tensor;
    vocabulary: number;
    dloss: number;
    accumulate: boolean;
  },
): void {
  const type = device.elementType;
  const {
    N,
    C,
    V: padded,
  } = dimensions('classifier', {
    in: [input, type, 'N C'],
    weight: [weight, type, 'V C'],
    logits: [logits, type, 'N V'],
    din: [dinput, type, 'N C'],
    dweight: [dweight, device.gradientType, 'V C'],
    losses: [losses, 'fp32', 'N'],
    targets: [targets, 'int32', 'N'],
  });
  expect('classifier', vocabulary <= padded, `V = ${vocabulary} is over the ${padded} rows of weight`);
  device.call('classifier', {
    losses: losses.pointer,
    din: dinput?.pointer ?? null,
    dweight: dweight?.pointer ?? null,
    logits: logits.pointer,
    in: input.pointer,
    weight: weight.pointer,
    targets: targets.pointer,
    N,
    C,
    V: vocabulary,
    Vp: padded,
    dloss,
    accumulate: accumulate ? 1 : 0,
  });
}

/** Bytes of workspace for N rows, C channels and a padded vocabulary of Vp. */
export function classifierScratch(device: Device, sizes: { N: number; C: number; Vp: number }): number {
  return device.scratch('classifierScratch', sizes);
}
