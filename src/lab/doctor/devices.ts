// Checks for `doctor`: whether each native library is built and opens, the GPUs, and the device that training uses.
import { existsSync } from 'node:fs';
import { attempt, Gpt2Error } from '../../base/errors.ts';
import { gib } from '../../model/memory.ts';
import { Device, type Dtype } from '../../native/device.ts';
import { type LibraryKind, libraryFix, libraryPath } from '../../native/find-library.ts';
import { defaultDtype, selectDevice } from '../../native/select-device.ts';
import { gpuFields } from '../../report/machine-load.ts';
import { measurePeaks } from '../bench/peaks.ts';
import { type Check, failed, ok, warning } from './check.ts';

export const isBuilt = (kind: LibraryKind): boolean => existsSync(libraryPath(kind));

/** Advice for a library that does not open. If GPT2_KERNELS may be the cause, rebuilding the library would not help. */
const fixOf = (kind: LibraryKind): string =>
  process.env.GPT2_KERNELS && isBuilt(kind) ? 'correct or unset GPT2_KERNELS' : libraryFix(kind);

/** Lists the GPUs that nvidia-smi finds. `hasGpu`: at least one has compute capability 8.0 or higher, as the CUDA library needs. */
export function checkGpus(): { check: Check; hasGpu: boolean } {
  const lines = gpuFields('name,compute_cap,memory.total,memory.free,driver_version');
  if (!lines) return { check: ok('gpu', 'nvidia-smi finds none: training runs on the CPU'), hasGpu: false };
  const gpus = lines.map((line) => {
    const [name, capability, total, free, driver] = line.split(', ') as [string, string, string, string, string];
    const [all, unused] = [total, free].map((mebibytes) => gib(Number.parseFloat(mebibytes) * 2 ** 20));
    const text = `${name} (compute capability ${capability}), ${unused} of ${all} free`;
    return { capability: Number(capability), driver, text };
  });
  const found = `${gpus.map(({ text }) => text).join('; ')}; driver ${gpus[0]!.driver}`;
  if (gpus.every(({ capability }) => capability < 8)) {
    const fix = 'compute capability 8.0 or higher is needed: train with --device cpu';
    return { check: warning('gpu', found, fix), hasGpu: false };
  }
  return { check: ok('gpu', found), hasGpu: true };
}

/** Opens a library, and reports its device and code path. `dtypes`: the dtypes in which to check its kernels; [] if it does not open. */
export function checkLibrary(kind: LibraryKind, hasGpu: boolean): { check: Check; dtypes: readonly Dtype[] } {
  const [name, path] = [`${kind} library`, libraryPath(kind)];
  const refused = (found: string, unneeded: string) => {
    const isNeeded = kind === 'cpu' || hasGpu;
    return { check: isNeeded ? failed(name, found, fixOf(kind)) : ok(name, unneeded), dtypes: [] };
  };
  if (!isBuilt(kind)) return refused(`${path} does not exist`, 'not built, and no GPU to run it');
  const opened = attempt(() => {
    using device = Device.open({ kind });
    const { library, codePath, faster, device: what, dtypes } = device.description;
    const { available, total } = device.memory();
    const free = `${gib(available)} of ${gib(total)} free`;
    const kernels = `${library} ${codePath}${faster ? ` (not ${faster})` : ''}`;
    const check = ok(name, `${path}: ${kernels} on ${what}, ${dtypes.join(' ')}, ${free}`);
    // If GPT2_LIBRARY made the other library open, its kernels are not checked under this library's name.
    return { check, dtypes: library === kind ? dtypes : [] };
  });
  if (!(opened instanceof Gpt2Error)) return opened;
  return refused(opened.message, `${path}; not usable here: ${opened.message}`);
}

/** Measures the CPU's rates: of matmuls in fp32 and bf16, as far as `dtypes` has these, and of a copy in memory. */
export async function checkRates(dtypes: readonly Dtype[]): Promise<Check> {
  const [found, copies]: [string[], number[]] = [[], []];
  for (const dtype of (['fp32', 'bf16'] as const).filter((each) => dtypes.includes(each))) {
    using device = Device.open({ kind: 'cpu', dtype });
    const { matmulFlopsPerSecond, copyBytesPerSecond } = await measurePeaks(device);
    found.push(`${dtype} ${(matmulFlopsPerSecond / 1e9).toFixed(0)} GFLOP/s`);
    copies.push(copyBytesPerSecond / 1e9);
  }
  found.push(`copy ${Math.max(...copies).toFixed(0)} GB/s`);
  return ok('cpu rates', `${found.join(', ')}; trains in ${defaultDtype('cpu')}`);
}

/** Reports the device that `--device auto` chooses, and the reason. */
export function checkChoice(): Check {
  const name = 'train uses';
  const chosen = attempt(() => selectDevice('auto'));
  if (chosen instanceof Gpt2Error) return failed(name, chosen.message, fixOf('cpu'));
  const { kind, index } = chosen;
  const onCpu = isBuilt('cuda') ? 'the CUDA library opens no GPU here' : 'there is no CUDA library';
  const why = kind === 'cuda' ? `the CUDA library is built and opens GPU ${index}` : onCpu;
  const forced = process.env.GPT2_LIBRARY ? `; GPT2_LIBRARY is ${process.env.GPT2_LIBRARY}` : '';
  return ok(name, `the ${kind} library: ${why}${forced}`);
}
