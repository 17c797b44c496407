// Kernels for tests of the emulator: k(out, in, n) of 256 elements. Those of a table are compiled together: a compiler takes half a
// second to start and to read the headers.
import { compileKernels, type Device, type Kernel, type LaunchShape, tensorOf } from '../../src/index.ts';

export const n = 256;
export const values = Float32Array.from({ length: n }, (_, i) => i);

export const kernel = (body: string, before = '') =>
  `${before}\n__global__ void k(float *out, const float *in, int n) {\n  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n${body}\n}\n`;
export const whole: LaunchShape = { grid: 4, block: 64 };
export const one: LaunchShape = { grid: 1, block: 64 };

export interface Rest {
  /** Comes before the kernel. */
  readonly before?: string;
  /** The whole source, in place of the kernel. */
  readonly source?: string;
  /** One block by default. */
  readonly shape?: LaunchShape;
}
export const sourceOf = (body: string, { before, shape = one, source = kernel(body, before) }: Rest = {}) => ({
  ...{ source, shape },
});

/** The values that a kernel writes to out. */
export function launch(device: Device, k: Kernel, shape: LaunchShape): Float32Array {
  const out = tensorOf(device, new Float32Array(n));
  k.launch(shape, out, tensorOf(device, values), n);
  return out.read() as Float32Array;
}

/** Sources that include the same headers as one: each in a namespace and, for the compiler, in a file with its number. */
export const together = (sources: readonly string[]) =>
  `${includesOf(sources[0]!)}\n${sources
    .map((source, i) => `namespace case_${i} {\n#line 1 "case_${i}.cu"\n${source.replaceAll(include, '')}}\n`)
    .join('')}`;

const include = /^#include .*$/gm;
const includesOf = (source: string) => source.match(include)?.join('\n') ?? '';

/** A message about a kernel of `together` as it is about the kernel alone. */
export const asAlone = (message: string, index: number) =>
  message.replaceAll(`case_${index}::`, '').replaceAll(`case_${index}.cu`, 'source.cu');

/**
 * Runs the kernels of a table. Those that include the same headers are compiled together, so that none gets a header from another; one
 * with a shared array outside of its function is compiled alone, because the array's name means that array in all later functions.
 */
export function batched(sources: readonly string[]) {
  const batchOf = (source: string) => (/^(extern )?__shared__/m.test(source) ? source : includesOf(source));
  const compiled = new Map<string, ReturnType<typeof compileKernels>>();
  return async (device: Device, source: string, shape: LaunchShape, checks = true): Promise<Float32Array> => {
    const batch = sources.filter((each) => batchOf(each) === batchOf(source));
    const [index, key] = [batch.indexOf(source), `${checks} ${batchOf(source)}`];
    if (!compiled.has(key)) compiled.set(key, compileKernels(device, { source: together(batch), checks }));
    const kernels = await compiled.get(key)!;
    try {
      return launch(device, kernels[`case_${index}::k`]!, shape);
    } catch (error) {
      (error as Error).message = asAlone((error as Error).message, index);
      throw error;
    }
  };
}
