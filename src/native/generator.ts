// The native random generator of the initial weights: MT19937, seeded as PyTorch's CPU generator.
import { Gpt2Error } from '../base/errors.ts';
import { type Bindings, GPT2_STATUS, type Pointer } from './bindings.generated.ts';
import type { LibraryKind } from './find-library.ts';
import { loadLibrary } from './library.ts';

export class Generator {
  readonly #bindings: Bindings;
  readonly #generator: Pointer;

  /** @param seed a whole number from 0 to 2^32 - 1 */
  constructor(kind: LibraryKind, seed: number) {
    this.#bindings = loadLibrary(kind);
    const generator = this.#bindings.generatorCreate({ seed });
    if (!generator) throw new Gpt2Error('out of memory for a random generator');
    this.#generator = generator;
  }

  /** Fills `normals` (16 or more) as torch.Tensor.normal_(mean, standardDeviation) would. */
  normal(normals: Float32Array, mean: number, standardDeviation: number): Float32Array {
    const generator = this.#generator;
    const count = normals.length;
    const status = this.#bindings.generatorNormal({ generator, normals, count, mean, standardDeviation });
    if (status !== GPT2_STATUS.GPT2_OK) {
      throw new Gpt2Error(`a normal fill takes 16 or more elements, not ${normals.length}`);
    }
    return normals;
  }

  [Symbol.dispose](): void {
    this.#bindings.generatorDestroy({ generator: this.#generator });
  }
}
