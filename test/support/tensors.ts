// Tensors for tests: seeded values, guard values behind every tensor, and the two measures gradients are compared by.
import { expect } from 'vitest';
import { bytesOf, type DeviceBuffer, type ElementType, Tensor } from '../../src/native/buffer.ts';
import type { Device } from '../../src/native/device.ts';
import type { FixtureTensor } from './fixtures.ts';

/** Elements behind each tensor that no op may touch. */
const guardCount = 64;
/** Exact in every type. */
const guardValue = 12352;

/** A source of numbers that is the same at every run: splitmix (Steele, Lea and Flood 2014) cut to 32 bits. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) | 0;
  }
  /** From [0, 1). */
  uniform(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 8) / 2 ** 24;
  }
  /** Roughly normal: the sum of twelve uniforms less six. */
  normals(count: number, scale = 1): Float32Array {
    return Float32Array.from({ length: count }, () => {
      let sum = -6;
      for (let index = 0; index < 12; index++) sum += this.uniform();
      return sum * scale;
    });
  }
  integers(count: number, below: number): Int32Array {
    return Int32Array.from({ length: count }, () => Math.floor(this.uniform() * below));
  }
}

/** Makes guarded tensors on a device and checks that nothing was written behind them. */
export class TensorBench {
  readonly device: Device;
  readonly #buffers: { tensor: Tensor; guard: Tensor }[] = [];

  constructor(device: Device) {
    this.device = device;
  }

  /** A tensor with values (rounded in bf16), or filled with NaN so that an element that is never written shows. */
  tensor(
    name: string,
    shape: readonly number[],
    values?: ArrayLike<number>,
    type: ElementType = this.device.elementType,
  ): Tensor {
    const count = shape.reduce((product, size) => product * size, 1);
    const width = bytesOf(type);
    const buffer: DeviceBuffer = this.device.allocate((count + guardCount) * width, name);
    const tensor = new Tensor(buffer, name, type, shape);
    const guard = new Tensor(buffer, `${name}'s guard`, type, [guardCount], count * width);
    const unwritten = type === 'int32' ? 0 : Number.NaN;
    writeNumbers(tensor, values ?? new Float32Array(count).fill(unwritten));
    writeNumbers(guard, new Float64Array(guardCount).fill(guardValue));
    this.#buffers.push({ tensor, guard });
    return tensor;
  }

  /** Likewise of what the device's type makes no difference to: statistics, bias gradients, losses. */
  floats(name: string, shape: readonly number[], values?: ArrayLike<number>): Tensor {
    return this.tensor(name, shape, values, 'fp32');
  }

  /** A tensor as it was recorded. */
  fixture(name: string, { shape, values }: FixtureTensor): Tensor {
    return this.tensor(name, shape, values, values instanceof Int32Array ? 'int32' : this.device.elementType);
  }

  checkGuards(): void {
    for (const { tensor, guard } of this.#buffers) {
      const values = guard.type === 'int32' ? (guard.read() as Int32Array) : floats(guard);
      expect(
        values.every((value) => value === guardValue),
        `${tensor.name}: written past its end`,
      ).toBe(true);
    }
  }

  close(): void {
    for (const { tensor } of this.#buffers.splice(0)) tensor.buffer.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** The elements of a tensor of floats. */
export function floats(tensor: Tensor): Float32Array {
  const values = tensor.read();
  if (values instanceof Float32Array) return values;
  // bf16 is the upper half of an fp32.
  return new Float32Array(Uint32Array.from(values, (bits) => bits << 16).buffer);
}

/** Numbers rounded to nearest even bf16, as their 16 bits. */
export function toBf16(values: ArrayLike<number>): Uint16Array {
  const bits = new Uint32Array(Float32Array.from(values).buffer);
  return Uint16Array.from(bits, (word) => {
    if ((word & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  });
}

/** Numbers as a tensor of that type holds them. */
export function held(type: ElementType, values: ArrayLike<number>): Float32Array {
  if (type !== 'bf16') return Float32Array.from(values);
  return new Float32Array(Uint32Array.from(toBf16(values), (bits) => bits << 16).buffer);
}

/** Writes numbers into a tensor of any type. */
export function writeNumbers(tensor: Tensor, values: ArrayLike<number>): void {
  if (tensor.type === 'int32') tensor.write(Int32Array.from(values));
  else tensor.write(tensor.type === 'bf16' ? toBf16(values) : Float32Array.from(values));
}

/** ‖a - b‖ / ‖b‖ */
export function relativeError(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let difference = 0;
  let norm = 0;
  for (let index = 0; index < b.length; index++) {
    difference += (a[index]! - b[index]!) ** 2;
    norm += b[index]! ** 2;
  }
  return Math.sqrt(difference) / Math.max(Math.sqrt(norm), 1e-30);
}

/** max |a - b| / max |b| */
export function worstError(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let difference = 0;
  let largest = 0;
  for (let index = 0; index < b.length; index++) {
    // NaN must not slip through a comparison.
    const error = Math.abs(a[index]! - b[index]!);
    if (!(error <= difference)) difference = error;
    largest = Math.max(largest, Math.abs(b[index]!));
  }
  return difference / Math.max(largest, 1e-30);
}

/** Both measures under `limit`, with the figures in the message. */
export function expectClose(name: string, a: ArrayLike<number>, b: ArrayLike<number>, limit = 1e-4): void {
  expect(a.length, `${name}: count`).toBe(b.length);
  const relative = relativeError(a, b);
  const worst = worstError(a, b);
  expect(relative < limit && worst < limit, `${name}: relative ${relative}, worst ${worst}, limit ${limit}`).toBe(true);
}

/** Sum of a * b in double. */
export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let index = 0; index < a.length; index++) sum += a[index]! * b[index]!;
  return sum;
}

/**
 * Checks a gradient against differences of the op's own forward along a random direction.
 *
 * The bound is what fp32 leaves: each output is rounded by about 1e-7 of its size, so a loss L carries an error of some
 * 1e-7 |L| and the difference over 2 * step = 0.02 one of 1e-5 |L|; against a derivative along the gradient that is as large
 * as L or larger this stays under 1e-4, and 1e-3 leaves room for losses that are sums of terms larger than themselves.
 * @param loss runs forward and gives the scalar that the gradient belongs to
 */
export function checkGradient(
  name: string,
  {
    input,
    gradient,
    loss,
    random,
    step = 1e-2,
    limit = 1e-3,
  }: {
    input: Tensor;
    gradient: ArrayLike<number>;
    loss: () => number;
    random: Random;
    step?: number;
    limit?: number;
  },
): void {
  const values = floats(input);
  const direction = random.normals(values.length);
  // Along the gradient itself as well, so that the derivative never is a small difference of large terms.
  const scale = 1 / Math.max(Math.sqrt(dot(gradient, gradient) / values.length), 1e-30);
  for (let index = 0; index < direction.length; index++) direction[index]! += gradient[index]! * scale;
  const shifted = (by: number): number => {
    const moved = Float32Array.from(values, (value, index) => value + by * direction[index]!);
    input.write(moved);
    return loss();
  };
  // Richardson: two central differences whose errors in step^2 cancel.
  const central = (by: number) => (shifted(by) - shifted(-by)) / (2 * by);
  const difference = (4 * central(step / 2) - central(step)) / 3;
  input.write(values);
  const derivative = dot(gradient, direction);
  const error = Math.abs(difference - derivative) / Math.abs(derivative);
  expect(
    error < limit,
    `${name}: derivative ${derivative}, difference ${difference}, error ${error}, limit ${limit}`,
  ).toBe(true);
}
