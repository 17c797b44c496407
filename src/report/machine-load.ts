// Reads the load of the training machine: the process's memory, and the GPU's memory, temperature, utilization and power. The GPU's
// numbers come from nvidia-smi; without it they are left out. Other files use nvidia-smi only through this file.
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
 * Calls `tell` with the load now and every two seconds. @returns a function that stops the calls
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
  // Without a listener, a missing nvidia-smi would end this process.
  tool.on('error', () => {});
  createInterface(tool.stdout).on('line', (line) => tell(parseGpuLine(line)));
  return () => {
    // If nvidia-smi did not start, kill() would signal pid 0 in Node 20: every process of our group.
    if (tool.pid !== undefined) tool.kill();
  };
}

/** A line of comma-separated fields from nvidia-smi for each GPU, or for `gpu`; undefined if nvidia-smi is missing or finds no GPU. */
export function gpuFields(fields: string, gpu?: string): string[] | undefined {
  const args = [...(gpu === undefined ? [] : ['-i', gpu]), `--query-gpu=${fields}`, '--format=csv,noheader'];
  const { status, stdout } = spawnSync('nvidia-smi', args, { encoding: 'utf8', timeout: 20_000 });
  return status === 0 ? stdout.trim().split('\n') : undefined;
}

/** A GPU's name for nvidia-smi, an index or UUID. CUDA numbers only the GPUs that CUDA_VISIBLE_DEVICES lists: take the list's entry. */
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
    /** Fraction of nvidia-smi's last sampling interval in which a kernel ran, 0 to 1. */
    load: load && load / 100,
    /** Watts. */
    power,
  };
}

/** A GPU's clocks and power at this moment, as text from nvidia-smi; null without nvidia-smi. */
export const readClocks = (gpu: string): string | null =>
  gpuFields('name,driver_version,clocks.sm,clocks.mem,power.draw,clocks_throttle_reasons.active', gpu)?.[0] ?? null;
