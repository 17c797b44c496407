// Opens a file of weights of any format and reads ranges of it.
import { closeSync, fstatSync } from 'node:fs';
import { explained, Gpt2Error } from '../../base/errors.ts';
import { openRegularFile, readFully } from '../../base/files/regular-file.ts';

export class StoredFile {
  readonly path: string;
  readonly bytes: number;
  #file: number | undefined;

  /** Opens a file. @throws Gpt2Error if it cannot be opened */
  constructor(path: string) {
    this.path = path;
    this.#file = explained(`${path} cannot be opened`, undefined, () => openRegularFile(path));
    this.bytes = fstatSync(this.#file).size;
  }

  /** Fills `into` with the bytes from `position` on. @throws Gpt2Error that names `what` */
  read<A extends Uint8Array>(into: A, position: number, what = this.path): A {
    const file = this.#file;
    if (file === undefined) throw new Gpt2Error(`${this.path} is closed`);
    explained(`${what} cannot be read`, undefined, () => readFully(file, into, position));
    return into;
  }

  [Symbol.dispose](): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

/** Makes the reader that `make` returns disposable: disposing the reader closes `file`. If `make` throws, `file` is closed at once. */
export function readerOf<F extends Disposable, R>(file: F, make: (file: F) => R): R & Disposable {
  try {
    return { ...make(file), [Symbol.dispose]: () => file[Symbol.dispose]() };
  } catch (error) {
    file[Symbol.dispose]();
    throw error;
  }
}
