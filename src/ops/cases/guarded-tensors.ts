// Test tensors that are followed by guard values in memory, to detect an op that writes past the end of a tensor.
import type { Device, DeviceBuffer } from '../../native/device.ts';
import { bytesOf, type ElementType, elementCount } from '../../native/element-types.ts';
import { Tensor } from '../../native/tensor.ts';
import { numbersOf, writeNumbers } from './case-numbers.ts';

const guardCount = 64;
/** The value of guard elements: a number that the type represents exactly. */
const guardValue = (type: ElementType): number => (type === 'int8' ? 1 : type === 'fp8' ? 208 : 12352);

export class GuardedTensors {
  readonly device: Device;
  readonly #buffers: { tensor: Tensor; guard: Tensor }[] = [];

  constructor(device: Device) {
    this.device = device;
  }

  /** Allocates a tensor with `values`, rounded to its type. Without `values` fills the tensor with NaN, to reveal unwritten elements. */
  tensor(
    name: string,
    shape: readonly number[],
    values?: ArrayLike<number>,
    type: ElementType = this.device.elementType,
  ): Tensor {
    const count = elementCount(shape);
    const width = bytesOf(type);
    const buffer: DeviceBuffer = this.device.allocate((count + guardCount) * width, name);
    const tensor = new Tensor(buffer, name, type, shape);
    const guard = new Tensor(buffer, `${name}'s guard`, type, [guardCount], count * width);
    const unwritten = type === 'int32' ? 0 : Number.NaN;
    writeNumbers(tensor, values ?? new Float32Array(count).fill(unwritten));
    writeNumbers(guard, new Float64Array(guardCount).fill(guardValue(type)));
    this.#buffers.push({ tensor, guard });
    return tensor;
  }

  /** Names of tensors past whose end an op has written. */
  get overwritten(): readonly string[] {
    const isTouched = (guard: Tensor) => {
      const wanted = guardValue(guard.type);
      return !numbersOf(guard, guard.read()).every((value) => value === wanted);
    };
    return this.#buffers.filter(({ guard }) => isTouched(guard)).map(({ tensor }) => tensor.name);
  }

  close(): void {
    for (const { tensor } of this.#buffers.splice(0)) tensor.buffer.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
