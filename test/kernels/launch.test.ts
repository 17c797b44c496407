// A launch takes arguments by the types in the kernel's own signature, sizes by the device's limits. No kernel runs here.
import { afterAll, describe, expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { allocateTensor, tensorOf } from '../../src/native/tensor.ts';
import { Kernel, type LaunchShape } from '../../src/ops/kernels/kernels.ts';
import { packArguments, parseSignature } from '../../src/ops/kernels/signature.ts';

const device = Device.open({ kind: 'cpu' });
afterAll(() => device.close());

it.each([
  ['add(float*, float const*, int)', 'add', ['float*', 'float const*', 'int']],
  ['none()', 'none', []],
  ['void scale<float, 256>(float*, unsigned long)', 'scale<float, 256>', ['float*', 'unsigned long']],
  ['void pick<Pair<int, float>, (bool)1>(Pair<int, float>)', 'pick<Pair<int, float>, (bool)1>', ['Pair<int, float>']],
  ['(anonymous namespace)::hidden(__nv_bfloat16 const*)', 'hidden', ['__nv_bfloat16 const*']],
  ['user::inner::add(float*)', 'user::inner::add', ['float*']],
  ['c_linkage', 'c_linkage', undefined],
])('reads %s', (signature, name, types) => {
  expect(parseSignature(signature)).toEqual({ name, types });
});

/** Parameters one after the other, each aligned to its size. */
function parametersOf(...types: readonly [type: string, bytes: number][]) {
  let end = 0;
  return types.map(([type, bytes]) => {
    const offset = Math.ceil(end / bytes) * bytes;
    end = offset + bytes;
    return { type, offset, bytes };
  });
}

it('packs arguments at their offsets', () => {
  const a = tensorOf(device, Float32Array.of(1, 2, 3, 4));
  const types = parametersOf(['int', 4], ['float const*', 8], ['float', 4], ['double', 8], ['bool', 1], ['float*', 8]);
  const packed = new DataView(packArguments(device, 'k', types, [-5, a, 1.5, 0.1, true, null]).packed.buffer);
  expect(packed.byteLength).toBe(48);
  expect(packed.getInt32(0, true)).toBe(-5);
  expect(packed.getBigUint64(8, true)).toBe(a.pointer);
  expect(packed.getFloat32(16, true)).toBe(1.5);
  expect(packed.getFloat64(24, true)).toBe(0.1);
  expect(packed.getUint8(32)).toBe(1);
  expect(packed.getBigUint64(40, true)).toBe(0n);
  const wide = parametersOf(['unsigned long long', 8], ['unsigned int', 4], ['signed char', 1], ['unsigned short', 2]);
  const numbers = new DataView(
    packArguments(device, 'k', wide, [2n ** 64n - 1n, 2 ** 32 - 1, -128, 65_535]).packed.buffer,
  );
  expect(numbers.getBigUint64(0, true)).toBe(2n ** 64n - 1n);
  expect(numbers.getUint32(8, true)).toBe(2 ** 32 - 1);
  expect(numbers.getInt8(12)).toBe(-128);
  expect(numbers.getUint16(14, true)).toBe(65_535);
});

describe('arguments are refused by their types', () => {
  const bf16 = () => allocateTensor(device, 'x', 'bf16', [4]);
  it.each([
    ['int', () => 1.5, 'a whole number from -2147483648 to 2147483647, not 1.5'],
    ['int', () => 2 ** 31, 'a whole number from -2147483648 to 2147483647, not 2147483648'],
    ['int', () => Number.NaN, 'a whole number from -2147483648 to 2147483647, not NaN'],
    ['unsigned int', () => -1, 'a whole number from 0 to 4294967295, not -1'],
    ['bool', () => 2, 'true or false, not 2'],
    ['float', () => '1' as never, 'a number, not "1"'],
    ['float', bf16, 'a number, not the bf16 tensor x'],
    ['float const*', () => 5, 'a tensor of fp32, device memory or null, not 5'],
    ['float*', bf16, 'a tensor of fp32, device memory or null, not the bf16 tensor x'],
    [
      '__nv_bfloat16*',
      () => tensorOf(device, Int32Array.of(1)),
      'a tensor of bf16, device memory or null, not the int32 tensor',
    ],
    ['__half2*', bf16, 'a tensor of fp16, device memory or null, not the bf16 tensor x'],
    ['double const*', bf16, 'a tensor of fp64, device memory or null, not the bf16 tensor x'],
    [
      'float*',
      () => new Float32Array(4) as never,
      'not a Float32Array of the host: copy it with tensorOf(device, values)',
    ],
    ['float*', () => undefined as never, 'a tensor of fp32, device memory or null, not undefined'],
    ['Pair', () => 1, 'nothing that can be passed: use pointers and plain numbers as parameters, not 1'],
  ])('%s', (type, value, expected) => {
    const pack = () => packArguments(device, 'scale', parametersOf(['int', 4], [type, 8]), [0, value()]);
    expect(pack).toThrow(`scale: argument 2 (${type}) takes `);
    expect(pack).toThrow(new RegExp(`${expected.replaceAll(/[()]/g, '\\$&')}$`));
  });

  it('their number, and a tensor of another device', () => {
    const parameters = parametersOf(['float*', 8], ['int', 4]);
    expect(() => packArguments(device, 'k', parameters, [null])).toThrow('k takes 2 arguments (float*, int), not 1');
    using other = Device.open({ kind: 'cpu' });
    const foreign = tensorOf(other, Float32Array.of(1));
    expect(() => packArguments(device, 'k', parameters, [foreign, 1])).toThrow("on the kernel's device");
  });
});

describe('the sizes of a launch', () => {
  const attributes = { registers: 32, localBytes: 0, sharedBytes: 1024, threads: 512, sharedLimit: 232_448 };
  const kernel = () =>
    new Kernel(device, () => 1n, 0, { signature: 'add(float*)', parameters: [{ offset: 0, bytes: 8 }], ...attributes });
  it.each([
    [
      { grid: 0, block: 32 },
      'add: the grid 0 x 1 x 1 cannot be launched; each size is a whole number from 1 to 2147483647, 65535, 65535',
    ],
    [{ grid: [1, 65_536], block: 32 }, 'add: the grid 1 x 65536 x 1 cannot be launched'],
    [{ grid: [1, 2, 3, 4], block: 32 } as never, 'add: the grid 1 x 2 x 3 x 4 cannot be launched'],
    [{ grid: 1.5, block: 32 }, 'add: the grid 1.5 x 1 x 1 cannot be launched'],
    [null as never, 'add: the grid undefined x 1 x 1 cannot be launched'],
    [{ grid: 1, block: 1, stream: 1 } as never, 'there is no option "stream"; the options are grid, block, shared'],
    [{ grid: 1 } as LaunchShape, 'add: the block undefined x 1 x 1 cannot be launched'],
    [
      { grid: 1, block: [1, 1, 65] },
      'add: the block 1 x 1 x 65 cannot be launched; each size is a whole number from 1 to 1024, 1024, 64',
    ],
    [{ grid: 1, block: 2048 }, 'add: the block 2048 x 1 x 1 cannot be launched'],
    [{ grid: 1, block: [32, 32] }, 'add: a block of 32 x 32 x 1 is 1024 threads; this kernel takes at most 512'],
    [
      { grid: 1, block: 32, shared: 232_000 },
      'add: a block cannot have 232000 bytes of dynamic shared memory; the most is 231424 (232448 less the 1024 of its declared arrays)',
    ],
  ] as const)('%j', (shape, expected) => {
    expect(() => kernel().launch(shape, null)).toThrow(expected);
  });

  it('a kernel of C linkage has no types', () => {
    const signature = 'add';
    expect(
      () => new Kernel(device, () => 1n, 0, { signature, parameters: [{ offset: 0, bytes: 8 }], ...attributes }),
    ).toThrow(
      'the kernel add does not carry the types of its parameters, because it is extern "C": remove extern "C" around it',
    );
  });
});
