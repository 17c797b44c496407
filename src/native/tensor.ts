// Shaped views of device memory, which own nothing.
import { ShapeError } from '../base/errors.ts';
import type { Pointer } from './bindings.generated.ts';
import type { Context } from './context.ts';
import type { Device, DeviceBuffer } from './device.ts';
import { bytesOf, type ElementType, elementCount, type HostArray, hostArrays } from './element-types.ts';

const isSize = (size: number): boolean => Number.isSafeInteger(size) && size >= 0;

/** A shaped, typed view of device memory. */
export class Tensor {
  readonly buffer: DeviceBuffer;
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** Start in the buffer, in bytes. */
  readonly offset: number;
  readonly count: number;

  /** @throws ShapeError if it ends after the buffer, or a size is not a whole number */
  constructor(buffer: DeviceBuffer, name: string, type: ElementType, shape: readonly number[], offset = 0) {
    this.buffer = buffer;
    this.name = name;
    this.type = type;
    this.shape = shape;
    this.offset = offset;
    this.count = elementCount(shape);
    if (![...shape, offset].every(isSize)) {
      throw new ShapeError(`${name} cannot be [${shape}] at byte ${offset}: sizes are whole numbers of at least 0`);
    }
    if (offset + this.bytes > buffer.bytes) {
      throw new ShapeError(
        `${name} [${shape}] of ${type} at byte ${offset} does not fit ${buffer.name} of ${buffer.bytes} bytes`,
      );
    }
  }

  get device(): Context {
    return this.buffer.device;
  }

  get bytes(): number {
    return this.count * bytesOf(this.type);
  }

  /** Address of the first element. @throws Gpt2Error if the memory is closed */
  get pointer(): Pointer {
    return this.buffer.pointer + BigInt(this.offset);
  }

  /** The same memory from element `start` on, in another shape. @throws ShapeError if it has too few elements */
  view(shape: readonly number[], start = 0, name = this.name): Tensor {
    const count = elementCount(shape);
    if (!isSize(start) || start + count > this.count) {
      throw new ShapeError(`${name} has ${this.count} elements, not ${count} ([${shape}]) from ${start}`);
    }
    return new Tensor(this.buffer, name, this.type, shape, this.offset + start * bytesOf(this.type));
  }

  /** Copies host elements in, from element `start` on. @throws ShapeError if they do not fit */
  write(values: HostArray, start = 0): void {
    this.#check(values, start);
    const destination = this.pointer + BigInt(start * bytesOf(this.type));
    this.device.call('copyToDevice', { destination, source: values, bytes: values.byteLength });
  }

  /** Copies elements out into `values`, from element `start` on. @throws ShapeError if there are too few */
  readInto<A extends HostArray>(values: A, start = 0): A {
    this.#check(values, start);
    const source = this.pointer + BigInt(start * bytesOf(this.type));
    this.device.call('copyToHost', { destination: values, source, bytes: values.byteLength });
    return values;
  }

  read(): HostArray {
    return this.readPart(0, this.count);
  }

  /** Copies `count` elements to the host, from element `start` on. */
  readPart(start: number, count: number): HostArray {
    return this.readInto<HostArray>(new hostArrays[this.type](count), start);
  }

  #check(values: HostArray, start: number): void {
    if (!(values instanceof hostArrays[this.type])) {
      throw new ShapeError(`${this.name} holds ${this.type}, not ${(values as HostArray)?.constructor.name}`);
    }
    if (!isSize(start) || start + values.length > this.count) {
      throw new ShapeError(`${this.name} has ${this.count} elements, not ${values.length} from ${start}`);
    }
  }
}

export function allocateTensor(device: Device, name: string, type: ElementType, shape: readonly number[]): Tensor {
  const count = elementCount(shape);
  return new Tensor(device.allocate(count * bytesOf(type), name), name, type, shape);
}

/**
 * A new tensor with the values of a typed array: Float32Array is fp32, Int32Array int32, Uint16Array the bits of bf16, Uint8Array
 * the bits of FP8 (E4M3), Int8Array GELU's derivatives (cuda/gpt2.h). `read()` returns the values.
 * @param shape default: one dimension
 * @throws ShapeError if the shape does not have as many elements as `values`
 * @example const a = tensorOf(device, Float32Array.of(1, 2, 3));
 */
export function tensorOf(device: Device, values: HostArray, shape: readonly number[] = [values.length]): Tensor {
  const type = (Object.keys(hostArrays) as ElementType[]).find((each) => values instanceof hostArrays[each]);
  if (type === undefined) {
    throw new ShapeError(
      `a tensor holds a Float32Array, Int32Array, Uint16Array, Uint8Array or Int8Array, not ${(values as object)?.constructor?.name}`,
    );
  }
  if (elementCount(shape) !== values.length) throw new ShapeError(`[${shape}] does not have ${values.length} elements`);
  const tensor = allocateTensor(device, 'tensor', type, shape);
  tensor.write(values);
  return tensor;
}
