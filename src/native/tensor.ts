// Tensors, and functions that allocate them.
import { checkArguments, checkValue } from '../base/checks/given.ts';
import { ShapeError } from '../base/errors.ts';
import type { Pointer } from './bindings.generated.ts';
import type { Context } from './context.ts';
import type { Device, DeviceBuffer } from './device.ts';
import { bytesOf, conversions, type ElementType, elementCount, type HostArray, hostArrays } from './element-types.ts';

const isSize = (size: number): boolean => Number.isSafeInteger(size) && size >= 0;

/** A view of device memory with a name, an element type and a shape. */
export class Tensor {
  readonly buffer: DeviceBuffer;
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** Start of the tensor in `buffer`, in bytes. */
  readonly offset: number;
  readonly count: number;

  /** @throws ShapeError if the tensor would end after the buffer, or a size is not a whole number */
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

  /** A tensor of another shape over this memory, from element `start` on. @throws ShapeError if there are too few elements */
  view(shape: readonly number[], start = 0, name = this.name): Tensor {
    const count = elementCount(shape);
    if (!isSize(start) || start + count > this.count) {
      throw new ShapeError(`${name} has ${this.count} elements, not ${count} ([${shape}]) from ${start}`);
    }
    return new Tensor(this.buffer, name, this.type, shape, this.offset + start * bytesOf(this.type));
  }

  /** Copies `values` from the host to elements `start` and following. @throws ShapeError if the values do not fit */
  write(values: HostArray, start = 0): void {
    this.#check(values, start);
    const destination = this.pointer + BigInt(start * bytesOf(this.type));
    this.device.call('copyToDevice', { destination, source: values, bytes: values.byteLength });
  }

  /** Fills `values` on the host with elements `start` and following. @throws ShapeError if there are too few elements */
  readInto<A extends HostArray>(values: A, start = 0): A {
    this.#check(values, start);
    const source = this.pointer + BigInt(start * bytesOf(this.type));
    this.device.call('copyToHost', { destination: values, source, bytes: values.byteLength });
    return values;
  }

  read(): HostArray {
    return this.readPart(0, this.count);
  }

  /** A copy of the elements as numbers: bf16, fp16 and fp8, which `read` returns as bits, are converted to fp32. */
  numbers(): HostArray {
    return conversions[this.type]?.from(this.read() as never) ?? this.read();
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

/** Allocates a tensor of zeros, which is freed when the device is closed. */
export function allocateTensor(device: Device, name: string, type: ElementType, shape: readonly number[]): Tensor {
  const count = elementCount(shape);
  return new Tensor(device.allocate(count * bytesOf(type), name), name, type, shape);
}

const typeOf = (values: HostArray) =>
  (Object.keys(hostArrays) as ElementType[]).find((type) => values instanceof hostArrays[type]);

/**
 * A new tensor with the values of a typed array. For the types bf16, fp16 and fp8 (E4M3), the numbers of a Float32Array are rounded,
 * while a Uint16Array or Uint8Array holds the bits. The tensor's `read()` returns bits, and `numbers()` converts them to fp32.
 * @param shape default: one dimension
 * @param type defaults to the array's type: fp32, fp64, int32 or int8. A Uint16Array is bf16 unless `type` is fp16; a Uint8Array is fp8
 *   unless `type` is uint8
 * @throws ShapeError if the shape does not have as many elements as `values`, or the array cannot hold the type
 * @example
 * const a = tensorOf(device, Float32Array.of(1, 2, 3));
 * const halves = tensorOf(device, Float32Array.of(0.1, 0.2, 0.3), [3], 'fp16');
 */
export function tensorOf(
  device: Device,
  values: HostArray,
  shape: readonly number[] = [values.length],
  type: ElementType | undefined = typeOf(values),
): Tensor {
  checkArguments({ device, shape });
  if (type === undefined) {
    const arrays = [...new Set(Object.values(hostArrays))].map(({ name }) => name);
    throw new ShapeError(`a tensor holds one of ${arrays.join(', ')}, not ${(values as object)?.constructor?.name}`);
  }
  checkValue('type', Object.keys(hostArrays), type);
  if (elementCount(shape) !== values.length) throw new ShapeError(`[${shape}] does not have ${values.length} elements`);
  const tensor = allocateTensor(device, 'tensor', type, shape);
  tensor.write(values instanceof Float32Array ? (conversions[type]?.to(values) ?? values) : values);
  return tensor;
}
