// GELU in its tanh form, elementwise. The contract of both directions is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions } from './dimensions.ts';

/** out = gelu(input). */
export function geluForward(device: Device, { out, input }: { out: Tensor; input: Tensor }): void {
  const { N } = dimensions('gelu_forward', {
    in: [input, device.elementType, 'N'],
    out: [out, device.elementType, 'N'],
  });
  device.call('geluForward', { out: out.pointer, in: input.pointer, count: N });
}

/** dinput = dout * gelu'(input); dinput may be dout. */
export function geluBackward(
  device: Device,
  { dinput, dout, input }: { dinput: Tensor; dout: Tensor; input: Tensor },
): void {
  const type = device.elementType;
  const { N } = dimensions('gelu_backward', {
    in: [input, type, 'N'],
    dout: [dout, type, 'N'],
    din: [dinput, type, 'N'],
  });
  device.call('geluBackward', { din: dinput.pointer, dout: dout.pointer, in: input.pointer, count: N });
}
