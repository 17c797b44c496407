// How much device memory a training run takes, known before anything is allocated, so that a batch that does not fit is
// refused with the one that does.
import { Gpt2Error } from '../errors.ts';
import { activationBytes } from '../model/activations.ts';
import type { ModelConfig } from '../model/config.ts';
import { modelScratch } from '../model/model.ts';
import { parameterBytes } from '../model/parameters.ts';
import type { Device } from '../native/device.ts';

/** What the device keeps besides the plan: the kernels' code, recorded graphs, and the ends of pages. */
const reserve = 384 * 2 ** 20;

/** Bytes of device memory that training takes with micro-batches of B x T. */
export function trainingBytes(device: Device, config: ModelConfig, { B, T }: { B: number; T: number }): number {
  const { elementType, gradientType } = device;
  const weights = parameterBytes(config, elementType, elementType);
  const fp32 = parameterBytes(config, 'fp32', 'fp32');
  const masters = elementType === 'fp32' ? 0 : fp32;
  const moments = 2 * fp32;
  const gradients = parameterBytes(config, gradientType, 'fp32');
  const activations = [...activationBytes(device, config, { B, T, purpose: 'training' }).values()];
  const scratch = modelScratch(device, config, { B, T });
  return [weights, masters, gradients, moments, scratch, ...activations].reduce((sum, bytes) => sum + bytes, 0);
}

/**
 * @throws Gpt2Error if a GPU has too little memory free: what is needed, what is free, and the largest batch that fits.
 * On the CPU nothing is checked: the system gives memory that its own figures call used.
 */
export function checkMemory(device: Device, config: ModelConfig, { B, T }: { B: number; T: number }): void {
  if (device.description.library !== 'cuda') return;
  const { available, total } = device.memory();
  const needs = (batch: number) => trainingBytes(device, config, { B: batch, T }) + reserve;
  if (needs(B) <= available) return;
  let fits = B - 1;
  while (fits > 0 && needs(fits) > available) fits--;
  const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  const advice =
    fits > 0
      ? `--batch ${fits} fits`
      : 'no batch fits: take a shorter --seq, a smaller --model, or end what else runs on the GPU';
  throw new Gpt2Error(
    `--batch ${B} with --seq ${T} needs ${gib(needs(B))} of device memory, ${gib(available)} of ${gib(total)} are free; ${advice}`,
  );
}
