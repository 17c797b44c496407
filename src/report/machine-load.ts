// Reads the load on the machine that trains: the process's memory and, from nvidia-smi, the GPU's memory, temperature, load and
// power. Without nvidia-smi the GPU is left out. Other files ask nvidia-smi here, too.
import { spawn, spawnSync } from 'node:child_process';
import { createInterface } from 'node:readline';

/** The machine at a moment; sizes in bytes. */
export interface MachineReading {
  readonly processMemory: number;
  readonly gpu?: GpuReading;
}

export type GpuReading = ReturnType<typeof parseGpuLine>;

const everySeconds = 2;
const fields = 'memory.used,memory.total,temperature.gpu,utilization.gpu,power.draw';

/**
 * Reads every two seconds until the returned function is called.
 * @param gpu the GPU's number in CUDA; undefined: none is used
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
  // nvidia-smi is not installed.
  tool.on('error', () => {});
  createInterface(tool.stdout).on('line', (line) => tell(parseGpuLine(line)));
  return () => {
    // Without a process, kill() before that error goes to pid 0: every process of our group (Node 20).
    if (tool.pid !== undefined) tool.kill();
  };
}

/** Fields of each GPU, or of one, as nvidia-smi reports them; undefined if the tool is missing or finds no GPU. */
export function gpuFields(fields: string, gpu?: string): string[] | undefined {
  const args = [...(gpu === undefined ? [] : ['-i', gpu]), `--query-gpu=${fields}`, '--format=csv,noheader'];
  const { status, stdout } = spawnSync('nvidia-smi', args, { encoding: 'utf8', timeout: 20_000 });
  return status === 0 ? stdout.trim().split('\n') : undefined;
}

/**
 * CUDA numbers the GPUs that CUDA_VISIBLE_DEVICES lists from 0; nvidia-smi sees all GPUs and accepts the list's entries (numbers,
 * UUIDs).
 */
export const toolsName = (gpu: number, visible = process.env.CUDA_VISIBLE_DEVICES): string =>
  visible?.split(',')[gpu]?.trim() || String(gpu);

/** "24680, 81559, 61, 100, 696.42"; a value that the GPU does not report is text in brackets. */
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
    /** Fraction of the time in which a kernel ran, 0 to 1. */
    load: load && load / 100,
    /** Watts. */
    power,
  };
}

/** A GPU's clocks and power while it works, as nvidia-smi reports them; null without nvidia-smi. */
export const readClocks = (gpu: string): string | null =>
  gpuFields('name,driver_version,clocks.sm,clocks.mem,power.draw,clocks_throttle_reasons.active', gpu)?.[0] ?? null;
