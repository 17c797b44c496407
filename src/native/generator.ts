// The random generator for initial weights, in the native library: MT19937, seeded like PyTorch's CPU generator.
import { Gpt2Error } from '../base/errors.ts';
import { GPT2_STATUS } from './bindings.generated.ts';
import type { LibraryKind } from './find-library.ts';
import { loadLibrary } from './library.ts';

/** Creates a random generator, to be closed by `using`. @param seed a whole number from 0 to 2^32 - 1 */
export function openGenerator(kind: LibraryKind, seed: number) {
  const bindings = loadLibrary(kind);
  const generator = bindings.generatorCreate({ seed });
  if (!generator) throw new Gpt2Error('out of memory for a random generator');
  return {
    /** Fills `normals`, which has 16 elements or more, with the numbers of torch.Tensor.normal_(mean, standardDeviation). */
    normal(normals: Float32Array, mean: number, standardDeviation: number): Float32Array {
      const count = normals.length;
      const status = bindings.generatorNormal({ generator, normals, count, mean, standardDeviation });
      if (status === GPT2_STATUS.GPT2_OK) return normals;
      throw new Gpt2Error(`a normal fill takes 16 or more elements, not ${normals.length}`);
    },
    [Symbol.dispose]: () => bindings.generatorDestroy({ generator }),
  };
}
