// Reads the load of the training machine: the process's memory, and from nvidia-smi the GPU's memory, temperature, utilization and
// power. Without nvidia-smi the GPU is left out. Other files query nvidia-smi through this one.
import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';

/** The load at one moment. Memory is in bytes. */
export interface MachineReading {
  readonly processMemory: number;
  readonly gpu?: GpuReading;
}

export type GpuReading = ReturnType<typeof parseGpuLine>;

const everySeconds = 2;
const fields = 'memory.used,memory.total,temperature.gpu,utilization.gpu,power.draw';

/**
 * Reads the load every two seconds. @returns stops the reading
 * @param gpu CUDA index of the GPU; undefined: no GPU
 */
export function watchMachine(gpu: number | undefined, tell: (reading: MachineReading) => void): () => void {
  let latest: GpuReading | undefined;
  const stopGpu = gpu === undefined ? () => {} : watchGpu(toolsName(gpu), (reading) => (latest = reading));
  const read = () => tell({ processMemory: process.memoryUsage.rss(), ...(latest ? { gpu: latest } : {}) });
  read();
  const timer = setInterval(read, everySeconds * 1000);
  return () => {
    clearInterval(timer);
    stopGpu();
  };
}

function watchGpu(name: string, tell: (reading: GpuReading) => void): () => void {
  const tool = spawn(
    'nvidia-smi',
    ['-i', name, `--query-gpu=${fields}`, '--format=csv,noheader,nounits', '-l', String(everySeconds)],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  // Ignore the error that nvidia-smi is not installed.
  tool.on('error', () => {});
  createInterface(tool.stdout).on('line', (line) => tell(parseGpuLine(line)));
  return () => {
    // If the program did not start, kill() would signal pid 0, that is, every process of our group (Node 20).
    if (tool.pid !== undefined) tool.kill();
  };
}

/** A line of comma-separated fields for each GPU, or for one; undefined if nvidia-smi is missing or finds no GPU. */
export function gpuFields(fields: string, gpu?: string): string[] | undefined {
  const args = [...(gpu === undefined ? [] : ['-i', gpu]), `--query-gpu=${fields}`, '--format=csv,noheader'];
  const { status, stdout } = spawnSync('nvidia-smi', args, { encoding: 'utf8', timeout: 20_000 });
  return status === 0 ? stdout.trim().split('\n') : undefined;
}

/** The GPU's name for nvidia-smi (index or UUID). CUDA counts only the GPUs in CUDA_VISIBLE_DEVICES; nvidia-smi takes its entries. */
export const toolsName = (gpu: number, visible = process.env.CUDA_VISIBLE_DEVICES): string =>
  visible?.split(',')[gpu]?.trim() || String(gpu);

/** Parses "24680, 81559, 61, 100, 696.42", a line of `fields`. A field that the GPU lacks ("[N/A]") becomes undefined. */
export function parseGpuLine(line: string) {
  const [used, total, temperature, load, power] = line.split(',').map((text) => {
    const value = Number.parseFloat(text);
    return Number.isFinite(value) ? value : undefined;
  });
  return {
    memoryUsed: used && used * 2 ** 20,
    memoryTotal: total && total * 2 ** 20,
    /** Degrees Celsius. */
    temperature,
    /** Fraction of the last interval in which a kernel ran, 0 to 1. */
    load: load && load / 100,
    /** Watts. */
    power,
  };
}

/** A GPU's clocks and power at this moment, as text from nvidia-smi; null without nvidia-smi. */
export const readClocks = (gpu: string): string | null =>
  gpuFields('name,driver_version,clocks.sm,clocks.mem,power.draw,clocks_throttle_reasons.active', gpu)?.[0] ?? null;
