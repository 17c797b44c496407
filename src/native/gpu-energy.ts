// Reads a GPU's energy counter through NVML, the driver's management library; nvidia-smi does not print it.
import { orElse } from '../base/errors.ts';
import { loadShared } from './koffi.ts';

/**
 * A function that returns the joules a GPU has used since its driver was loaded. Undefined without NVML, for an unknown GPU, and for a
 * GPU without the counter (older than Volta, or a MIG instance).
 * @param name number or UUID of the GPU, as in `nvidia-smi -i`
 */
export const openEnergyCounter = (name: string, library = 'libnvidia-ml.so.1'): (() => number) | undefined =>
  orElse(undefined, () => {
    const nvml = loadShared(library);
    const succeeds = (status: unknown): boolean => status === 0;
    if (!succeeds(nvml.func('int nvmlInit_v2()')())) return undefined;
    const device: unknown[] = [null];
    const isNumber = /^\d+$/.test(name);
    const find = isNumber
      ? nvml.func('int nvmlDeviceGetHandleByIndex_v2(unsigned int index, _Out_ void **device)')
      : nvml.func('int nvmlDeviceGetHandleByUUID(const char *uuid, _Out_ void **device)');
    if (!succeeds(find(isNumber ? Number(name) : name, device))) return undefined;
    const energy = nvml.func('int nvmlDeviceGetTotalEnergyConsumption(void *device, _Out_ uint64_t *millijoules)');
    const read = (): number | undefined => {
      const millijoules: (number | bigint)[] = [0];
      return succeeds(energy(device[0], millijoules)) ? Number(millijoules[0]) / 1000 : undefined;
    };
    return read() === undefined ? undefined : () => read() ?? Number.NaN;
  });
