// The two kinds of memory that a context allocates: device memory, and page-locked host memory.
import { checkValue, whole } from '../base/checks/given.ts';
import { Gpt2Error } from '../base/errors.ts';
import type { Pointer } from './bindings.generated.ts';
import type { Context } from './context.ts';
import { viewMemory } from './koffi.ts';

/** Memory that a context has allocated. Any use after `close()` throws. */
abstract class Memory {
  readonly device: Context;
  readonly bytes: number;
  readonly #what: string;
  #pointer: Pointer | undefined;

  constructor(device: Context, bytes: number, allocate: 'allocate' | 'allocatePinned', what: string) {
    checkValue(`the size of ${what} in bytes`, whole(0), bytes);
    const memory = new BigUint64Array(1);
    device.call(allocate, { memory, bytes });
    this.device = device;
    this.bytes = bytes;
    this.#what = what;
    this.#pointer = memory[0]!;
  }

  /** Address of the first byte. @throws Gpt2Error after close */
  get pointer(): Pointer {
    if (this.#pointer === undefined) throw new Gpt2Error(`${this.#what} is closed`);
    return this.#pointer;
  }

  close(): void {
    const memory = this.#pointer;
    this.#pointer = undefined;
    if (memory !== undefined) this.free(memory);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  protected abstract free(memory: Pointer): void;
}

export class DeviceBuffer extends Memory {
  readonly name: string;
  readonly #onClose: () => void;
  #isLeft = false;

  /** To allocate, call `Device.allocate` instead. */
  constructor(device: Context, bytes: number, name: string, onClose: () => void) {
    super(device, bytes, 'allocate', `the device memory "${name}"`);
    this.name = name;
    this.#onClose = onClose;
  }

  /** Makes `close()` keep the memory until this process ends, for memory to which another process may still write. */
  leave(): void {
    this.#isLeft = true;
  }

  protected free(memory: Pointer): void {
    if (!this.#isLeft) this.device.call('free', { memory });
    this.#onClose();
  }
}

/** Page-locked host memory, with which the device exchanges data asynchronously, while the program continues. */
export class PinnedBuffer extends Memory {
  #view: ArrayBuffer | undefined;

  /** To allocate, call `Device.allocatePinned` instead. */
  constructor(device: Context, bytes: number) {
    super(device, bytes, 'allocatePinned', 'the pinned memory');
  }

  /** Address of the byte at `offset`. @throws Gpt2Error after close */
  at(offset: number): Pointer {
    return this.pointer + BigInt(offset);
  }

  /**
   * A view of the memory. Do not keep the view across an `await`: Node cannot detach it when the memory is closed.
   * @throws Gpt2Error after close
   */
  get memory(): ArrayBuffer {
    const address = this.pointer;
    this.#view ??= viewMemory(address, this.bytes);
    return this.#view;
  }

  protected free(memory: Pointer): void {
    this.device.call('freePinned', { memory });
  }
}
