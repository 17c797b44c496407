// Measures a device's two best rates: bytes of a large copy, operations of a large matmul. Each op's bound follows from them.
import { GPT2_ACTIVATION, GPT2_FP8_FACTOR } from '../../native/bindings.generated.ts';
import type { Device } from '../../native/device.ts';
import type { ElementType } from '../../native/element-types.ts';
import { allocateTensor, type Tensor } from '../../native/tensor.ts';
import { fp8MatmulScratch, fp8QuantizeWeightScratch, matmulScratch } from '../../ops/ops.generated.ts';
import { timeOnDevice } from './timing.ts';

const activation = GPT2_ACTIVATION.GPT2_NO_ACTIVATION;

export type Peaks = Awaited<ReturnType<typeof measurePeaks>>;

/** The least work with which an op can be computed. */
export interface Work {
  /** Floating-point operations of the op's matmuls, a multiply-add counted as two; 0 for an op that only moves data. */
  readonly flops: number;
  /** How many of `flops` are in FP8. */
  readonly fp8Flops: number;
  /** Bytes moved if each input is read once and each output is written once. */
  readonly bytes: number;
}

/**
 * The least milliseconds of an op's work. On a GPU the longer of two times: operations at the matmul's rate, bytes at the copy's rate.
 * On a CPU the sum of the two times, because a CPU's cores wait for memory.
 */
export function leastMs(peaks: Peaks, { flops, fp8Flops, bytes }: Work): number {
  const { matmulFlopsPerSecond: rate, fp8FlopsPerSecond: fp8Rate = rate, copyBytesPerSecond } = peaks;
  const [compute, move] = [(flops - fp8Flops) / rate + fp8Flops / fp8Rate, bytes / copyBytesPerSecond];
  return (peaks.waits ? compute + move : Math.max(compute, move)) * 1000;
}

export async function measurePeaks(device: Device) {
  const isGpu = device.description.library === 'cuda';
  const least = isGpu ? 20 : 5;

  const bytes = isGpu ? 2 ** 30 : 2 ** 26;
  const [a, b] = [device.allocate(bytes, 'copied'), device.allocate(bytes, 'copied')];
  const copy = () => device.call('copyOnDevice', { destination: b.pointer, source: a.pointer, bytes });
  // Measure without a graph: an H100 copies at 3.0 TB/s if copies are enqueued one by one, but at 2.4 TB/s in a graph.
  const copyTime = await timeOnDevice(device, copy, least, { records: false });
  for (const buffer of [a, b]) buffer.close();

  const size = isGpu ? 8192 : 1024;
  const matrix = (name: string) => allocateTensor(device, name, device.elementType, [size, size]);
  const [out, input, weight] = [matrix('out'), matrix('in'), matrix('weight')];
  fillRandom(input);
  fillRandom(weight);
  device.reserveWorkspace(matmulScratch(device, { N: size, C: size, O: size, gradients: true }));
  // Call the library directly, because a user's kernel may replace the op.
  const tensors = { out: out.pointer, in: input.pointer, weight: weight.pointer };
  const absent = { pre: null, bias: null, residual: null };
  const sizes = { N: size, C: size, O: size, activation };
  const matmul = () => device.call('matmulForward', { ...tensors, ...absent, ...sizes });
  const matmulTime = await timeOnDevice(device, matmul, least);
  const flops = 2 * size ** 3;
  const fp8Time = device.dtype === 'fp8' ? await timeFp8(device, { out, input, weight }, least) : undefined;
  for (const { buffer } of [out, input, weight]) buffer.close();
  return {
    /** Rate of a copy within the device's memory, in bytes per second: bytes read plus bytes written. */
    copyBytesPerSecond: (2 * bytes * 1000) / copyTime,
    /** Floating-point operations per second of the library's matmul, with two square matrices of random numbers. */
    matmulFlopsPerSecond: (flops * 1000) / matmulTime,
    /** The FP8 counterpart of `matmulFlopsPerSecond`; undefined unless the device's dtype is fp8. */
    fp8FlopsPerSecond: fp8Time === undefined ? undefined : (flops * 1000) / fp8Time,
    matmulSize: size,
    /** Whether an op's time is the sum of computing and moving bytes (a CPU) rather than the longer of the two (a GPU). */
    waits: !isGpu,
  };
}

type Matrices = Readonly<Record<'out' | 'input' | 'weight', Tensor>>;

/** Quantizes the matrices, and measures the milliseconds of the library's FP8 matmul with them. */
async function timeFp8(device: Device, { out, input, weight }: Matrices, least: number): Promise<number> {
  const size = out.shape[0]!;
  const sizes = { C: size, O: size };
  const tensor = (name: string, type: ElementType, ...shape: number[]) => allocateTensor(device, name, type, shape);
  const scale = tensor('scale', 'fp32', size);
  const factors = tensor('factors', 'fp32', GPT2_FP8_FACTOR.GPT2_FP8_FACTORS);
  scale.write(new Float32Array(size).fill(1));
  const scratch = fp8MatmulScratch(device, { N: size, ...sizes, gradients: false });
  device.reserveWorkspace(Math.max(scratch, fp8QuantizeWeightScratch(device, sizes)));
  const [copied, quantized] = [input, weight].map(({ name, pointer }) => {
    const values = tensor(`${name} in FP8`, 'fp8', size, size);
    const outputs = { values: values.pointer, transposed: null, factors: factors.pointer };
    device.call('fp8QuantizeWeight', { ...outputs, weight: pointer, bias: null, ...sizes });
    return values;
  }) as [Tensor, Tensor];
  const operands = { in: copied.pointer, inScale: scale.pointer, weight: quantized.pointer, factors: factors.pointer };
  const stored = { values: null, scale: null, columnwise: null, columnwiseScale: null, derivative: null };
  const unused = { ...stored, inNorm: null, inColumnwiseNorm: null, bias: null, residual: null };
  const args = { out: out.pointer, ...operands, ...unused, N: size, ...sizes, activation };
  const ms = await timeOnDevice(device, () => device.call('fp8MatmulForward', args), least);
  for (const { buffer } of [copied, quantized, scale, factors]) buffer.close();
  return ms;
}

/** Fills a tensor with roughly normal random numbers, because a matmul runs faster on zeros than on random numbers. */
function fillRandom(tensor: Tensor): void {
  const part = Math.min(tensor.count, 2 ** 20);
  const values = Float32Array.from({ length: part }, () => Math.random() + Math.random() + Math.random() - 1.5);
  const bits = new Uint32Array(values.buffer);
  const host = tensor.type === 'bf16' ? Uint16Array.from(bits, (word) => word >>> 16) : values;
  for (let at = 0; at < tensor.count; at += part) tensor.write(host.subarray(0, Math.min(part, tensor.count - at)), at);
}
