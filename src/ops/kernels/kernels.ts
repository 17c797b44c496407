// Loads a user's compiled kernels on a device, finds kernels by name, checks launches and enqueues them.
import { checkGiven, whole } from '../../base/checks/given.ts';
import { gpt2Error } from '../../base/errors.ts';
import type { Pointer } from '../../native/bindings.generated.ts';
import type { Device } from '../../native/device.ts';
import { type KernelArgument, type KernelParameter, packArguments, parseSignature } from './signature.ts';

/** The size of a grid or block in up to three dimensions: x, [x, y] or [x, y, z]. */
export type Dimensions = number | readonly [x: number, y?: number, z?: number];

/** The grid, block and dynamic shared memory of a launch. */
export interface LaunchShape {
  /** Number of blocks in each dimension. */
  readonly grid: Dimensions;
  /** Number of threads of a block in each dimension. */
  readonly block: Dimensions;
  /** Bytes of dynamic shared memory in a block. Default 0. */
  readonly shared?: number | undefined;
}

/** The resources that a compiled kernel uses, and their limits. */
export interface KernelAttributes {
  /** Number of registers of a thread. */
  readonly registers: number;
  /** Bytes of local memory of a thread, for spilled registers and indexed arrays. */
  readonly localBytes: number;
  /** Bytes of static shared memory of a block. */
  readonly sharedBytes: number;
  /** The largest number of threads in a block. */
  readonly threads: number;
  /** The most shared memory that a block can have, static and dynamic together, in bytes. */
  readonly sharedLimit: number;
}

interface Described extends KernelAttributes {
  readonly signature: string;
  readonly parameters: readonly Omit<KernelParameter, 'type'>[];
}

/** The sizes x, y, z of a grid or block; a missing y or z is 1. Wrong sizes, a missing x, and a fourth size are rejected later. */
const sizesOf = (dimensions: Dimensions): [number, number, number] => {
  const [x, y = 1, z = 1, ...more] = [dimensions].flat() as number[];
  return [x!, y, z, ...more] as [number, number, number];
};
const largestGrid = [2 ** 31 - 1, 65_535, 65_535];
const largestBlock = [1024, 1024, 64];

/**
 * A compiled kernel on a device. `compileKernels` and `loadKernels` make kernels, which are freed when they or the device are
 * closed.
 * @example
 * const { add } = await compileKernels<'add'>(gpu, { source: '__global__ void add(float *out) {}' });
 * const { attributes }: Kernel = add;
 * console.log(`${attributes.registers} registers, ${attributes.localBytes} bytes spilled`);
 */
export class Kernel {
  /** The kernel's name, with template arguments: "vectorAdd", "scale<float, 256>". */
  readonly name: string;
  readonly parameters: readonly KernelParameter[];
  readonly attributes: KernelAttributes;
  readonly #device: Device;
  readonly #module: () => Pointer;
  readonly #index: number;

  /** To make kernels, call `compileKernels` instead. */
  constructor(
    device: Device,
    module: () => Pointer,
    index: number,
    { signature, parameters, ...attributes }: Described,
  ) {
    const { name, types } = parseSignature(signature);
    if (types?.length !== parameters.length) {
      throw gpt2Error`the kernel ${name} does not carry the types of its parameters, because it is extern "C": remove extern "C" around it`;
    }
    this.name = name;
    this.parameters = parameters.map((parameter, at) => ({ ...parameter, type: types[at]! }));
    this.attributes = attributes;
    this.#device = device;
    this.#module = module;
    this.#index = index;
  }

  /**
   * Enqueues a launch of the kernel after all earlier work. In a function that `Device.program` records, the launch is recorded.
   * @throws Gpt2Error for a wrong argument, or a grid or block that the device cannot run; NativeError if the launch fails
   * @example add.launch({ grid: Math.ceil(n / 256), block: 256 }, out, a, b, n);
   */
  launch(shape: LaunchShape, ...args: readonly KernelArgument[]): void {
    const { grid, block, shared = 0 } = shape ?? {};
    checkGiven({ ...shape, grid: [grid], block: [block] }, { grid: 'object', block: 'object' }, { shared: whole(0) });
    const [grids, blocks] = [sizesOf(grid), sizesOf(block)];
    this.#check('grid', grids, largestGrid);
    this.#check('block', blocks, largestBlock);
    const threads = blocks[0] * blocks[1] * blocks[2];
    const { threads: most, sharedBytes, sharedLimit } = this.attributes;
    if (threads > most) {
      throw gpt2Error`${this.name}: a block of ${blocks.join(' x ')} is ${threads} threads; this kernel takes at most ${most}`;
    }
    if (shared + sharedBytes > sharedLimit) {
      const declared = sharedBytes > 0 ? ` (${sharedLimit} less the ${sharedBytes} of its declared arrays)` : '';
      throw gpt2Error`${this.name}: a block cannot have ${shared} bytes of dynamic shared memory; the most is ${sharedLimit - sharedBytes}${declared}`;
    }
    const { packed, reach } = packArguments(this.#device, this.name, this.parameters, args);
    const [gridX, gridY, gridZ] = grids;
    const [blockX, blockY, blockZ] = blocks;
    this.#device.call('moduleLaunch', {
      ...{ module: this.#module(), kernel: this.#index, sharedBytes: shared },
      ...{ gridX, gridY, gridZ, blockX, blockY, blockZ },
      // Passes one unused element for a kernel without parameters, because the library needs valid addresses.
      ...{ arguments: packed.byteLength > 0 ? packed : new Uint8Array(1), bytes: packed.byteLength },
      ...{ reach: reach.length > 0 ? reach : new BigInt64Array(1), parameters: reach.length },
    });
  }

  #check(what: string, sizes: readonly number[], limits: readonly number[]): void {
    if (sizes.every((size, axis) => Number.isInteger(size) && size >= 1 && size <= limits[axis]!)) return;
    throw gpt2Error`${this.name}: the ${what} ${sizes.map(String).join(' x ')} cannot be launched; each size is a whole number from 1 to ${limits.join(', ')}`;
  }
}

/** Compiled kernels by name. Reading a missing name throws. `using` frees the kernels; otherwise closing the device frees them. */
export type Kernels<Name extends string = string> = Readonly<Record<Name, Kernel>> & Disposable;

/**
 * Loads kernels from a file that `gpt2 kernel build` compiled. No compiler is needed.
 * @throws NativeError if the file was compiled for another kind of device
 * @example const { vectorAdd } = loadKernels<'vectorAdd'>(gpu, 'vector-add.cubin');
 */
export const loadKernels = <Name extends string = string>(device: Device, path: string): Kernels<Name> =>
  openKernels(device, path, path);

type Defines = Readonly<Record<string, string | number>>;

/**
 * Loads a compiled file of kernels. @param name name of the file or its source, for messages
 * @param defines macros with which the file was compiled; a macro in a kernel's name stands for its value
 */
export function openKernels<Name extends string>(
  device: Device,
  path: string,
  name: string,
  defines: Defines = {},
): Kernels<Name> {
  const out = new BigUint64Array(1);
  const bytes = new TextEncoder().encode(path);
  device.call('moduleLoad', { module: out, path: bytes, bytes: bytes.byteLength });
  let handle: Pointer | undefined = out[0]!;
  const module = (): Pointer => {
    if (handle === undefined) throw gpt2Error`the kernels of ${name} are closed`;
    return handle;
  };
  const close = (): void => {
    if (handle === undefined) return;
    const freed = handle;
    handle = undefined;
    device.dropGraphs();
    device.call('moduleFree', { module: freed });
  };
  device.own({ close });
  const described = JSON.parse(device.describeModule(module())) as readonly Described[];
  const kernels = described.map((each, index) => new Kernel(device, module, index, each));
  const byName = new Map(kernels.map((kernel) => [withoutSpaces(kernel.name), kernel]));
  const find = (key: string) => byName.get(withoutSpaces(instanceOf(key, defines)));
  return new Proxy({} as Kernels<Name>, {
    get: (_, key) => {
      if (key === Symbol.dispose) return close;
      // Reading "then" must not throw: `await` reads this property to learn whether a value is a Promise.
      if (typeof key === 'symbol' || key === 'then') return undefined;
      const kernel = find(key);
      if (kernel) return kernel;
      const names = kernels.map(({ name }) => name).join(', ');
      // The advice differs for a missing template instance, because the compiler makes only instances that `instantiate` lists.
      const isTemplate = key.includes('<') || kernels.length === 0;
      const fix = isTemplate ? '; add the instance of a template to instantiate' : '';
      throw gpt2Error`there is no kernel ${instanceOf(key, defines)} in ${name}: it has ${names || 'none'}${fix}`;
    },
    has: (_, key) => typeof key === 'string' && find(key) !== undefined,
    ownKeys: () => kernels.map(({ name }) => name),
    getOwnPropertyDescriptor: (_, key) => ({ value: find(String(key)), enumerable: true, configurable: true }),
  });
}

/** Replaces macros in a kernel's name: "scale<ELEMENT, 256>" becomes "scale<float, 256>". */
export const instanceOf = (name: string, defines: Defines): string =>
  name.replaceAll(/\b[A-Za-z_]\w*/g, (word) => String(Object.hasOwn(defines, word) ? defines[word] : word));

/** Removes spaces from a kernel's name, because compilers differ in the spaces of "scale<float, 256>". */
export const withoutSpaces = (name: string): string => name.replaceAll(' ', '');
