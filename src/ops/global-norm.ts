// The norm of all gradients together and the clip factor that follows from it, into the step block. See cuda/gpt2.h.

import { GPT2_STEP } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import type { Communicator } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/**
 * NORM = ‖(matrices, vectors)‖; CLIP = maxNorm / NORM where NORM > maxNorm > 0, else 1. With a communicator the matrices are
 * this rank's part of them all; of several rows [parts, N] they are the sum, which the first row becomes.
 */
export function globalNorm(
  device: Device,
  {
    step,
    matrices,
    vectors,
    maxNorm,
    communicator,
  }: { step: Tensor; matrices: Tensor; vectors: Tensor; maxNorm: number; communicator?: Communicator },
): void {
  const parts = matrices.shape.length === 1 ? 1 : matrices.shape[0]!;
  expect('global_norm', parts === 1 || communicator !== undefined, `${parts} rows of matrices, but no ranks`);
  dimensions('global_norm', { matrices: [matrices, device.gradientType, 'N'], step: [step, 'fp32', 'T'] });
  dimensions('global_norm', { vectors: [vectors, 'fp32', 'N'] });
  expect('global_norm', step.count === GPT2_STEP.GPT2_STEP_SIZE, `step has ${step.count} elements`);
  const args = {
    step: step.pointer,
    matrices: matrices.pointer,
    vectors: vectors.pointer,
    matrixCount: matrices.count / parts,
    vectorCount: vectors.count,
    maxNorm,
  };
  if (communicator) device.call('globalNormOfRanks', { ...args, parts, communicator: communicator.handle });
  else device.call('globalNorm', args);
}

/** Bytes of workspace that globalNorm needs. */
export function globalNormScratch(device: Device, sizes: { matrixCount: number; vectorCount: number }): number {
  return device.scratch('globalNormScratch', sizes);
}
