// The residual sum, elementwise. Its backward is the identity: layernormBackward takes the passing gradient as dresidual.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions } from './dimensions.ts';

/** out = a + b; out may be a or b. */
export function residualForward(device: Device, { out, a, b }: { out: Tensor; a: Tensor; b: Tensor }): void {
  const type = device.elementType;
  const { N } = dimensions('residual_forward', { a: [a, type, 'N'], b: [b, type, 'N'], out: [out, type, 'N'] });
  device.call('residualForward', { out: out.pointer, a: a.pointer, b: b.pointer, count: N });
}
