// One AdamW update over an arena of parameters that share a weight decay. See cuda/gpt2.h for the formula.

import { GPT2_DTYPE, GPT2_STEP } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/** Updates weight, master (the same tensor as weight in fp32), m and v; learning rate, corrections and clip come from step. */
export function adamw(
  device: Device,
  {
    weight,
    master,
    m,
    v,
    gradient,
    step,
    beta1,
    beta2,
    eps,
    weightDecay,
  }: {
    weight: Tensor;
    master: Tensor;
    m: Tensor;
    v: Tensor;
    gradient: Tensor;
    step: Tensor;
    beta1: number;
    beta2: number;
    eps: number;
    weightDecay: number;
  },
): void {
  const { N } = dimensions('adamw', {
    weight: [weight, device.elementType, 'N'],
    master: [master, 'fp32', 'N'],
    m: [m, 'fp32', 'N'],
    v: [v, 'fp32', 'N'],
    gradient: [gradient, gradient.type, 'N'],
  });
  expect('adamw', step.count === GPT2_STEP.GPT2_STEP_SIZE, `step has ${step.count} elements`);
  device.call('adamw', {
    weight: weight.pointer,
    master: master.pointer,
    m: m.pointer,
    v: v.pointer,
    gradient: gradient.pointer,
    step: step.pointer,
    count: N,
    gradientDtype: gradient.type === 'bf16' ? GPT2_DTYPE.GPT2_BF16 : GPT2_DTYPE.GPT2_FP32,
    beta1,
    beta2,
    eps,
    weightDecay,
  });
}
