// Measures the device's best rates of a copy and of a large matmul of ours, which bound every op.
import { allocateTensor, type Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { matmulScratch } from '../ops/ops.generated.ts';
import { timeOnDevice } from './timing.ts';

export type Peaks = Awaited<ReturnType<typeof measurePeaks>>;

/** The least milliseconds of work: the longer of its operations at the rate of the matmul and its bytes at that of the copy. */
export const leastMs = (peaks: Peaks, { flops, bytes }: { readonly flops: number; readonly bytes: number }): number =>
  Math.max(flops / peaks.matmulFlopsPerSecond, bytes / peaks.copyBytesPerSecond) * 1000;

export async function measurePeaks(device: Device) {
  const isGpu = device.description.library === 'cuda';
  const least = isGpu ? 20 : 5;

  const bytes = isGpu ? 2 ** 30 : 2 ** 26;
  const [a, b] = [device.allocate(bytes, 'copied'), device.allocate(bytes, 'copied')];
  const copy = () => device.call('copyOnDevice', { destination: b.pointer, source: a.pointer, bytes });
  // Inside a graph an H100 copies at 2.4 TB/s, enqueued one by one at 3.0.
  const copyTime = await timeOnDevice(device, copy, least, { records: false });
  for (const buffer of [a, b]) buffer.close();

  const size = isGpu ? 8192 : 1024;
  const matrix = (name: string) => allocateTensor(device, name, device.elementType, [size, size]);
  const [out, input, weight] = [matrix('out'), matrix('in'), matrix('weight')];
  fillRandom(input);
  fillRandom(weight);
  device.reserveWorkspace(matmulScratch(device, { N: size, C: size, O: size, gradients: true }));
  // The library's, also where a kernel of the user computes the op.
  const pointers = { out: out.pointer, in: input.pointer, weight: weight.pointer, bias: null };
  const matmul = () => device.call('matmulForward', { ...pointers, N: size, C: size, O: size });
  const matmulTime = await timeOnDevice(device, matmul, least);
  for (const { buffer } of [out, input, weight]) buffer.close();
  return {
    /** Bytes read and written per second by a copy on the device. */
    copyBytesPerSecond: (2 * bytes * 1000) / copyTime,
    /** Operations per second of the library's own matmul of square matrices of random numbers. */
    matmulFlopsPerSecond: (2 * size ** 3 * 1000) / matmulTime,
    matmulSize: size,
  };
}

/** Roughly normal numbers: products run slower on random data than on zeros. */
function fillRandom(tensor: Tensor): void {
  const part = Math.min(tensor.count, 2 ** 20);
  const values = Float32Array.from({ length: part }, () => Math.random() + Math.random() + Math.random() - 1.5);
  const bits = new Uint32Array(values.buffer);
  const host = tensor.type === 'bf16' ? Uint16Array.from(bits, (word) => word >>> 16) : values;
  for (let at = 0; at < tensor.count; at += part) tensor.write(host.subarray(0, Math.min(part, tensor.count - at)), at);
}
