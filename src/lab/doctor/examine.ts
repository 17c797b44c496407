// Runs all checks of `doctor`, in an order in which each check finds the results it depends on. No check writes a file.
import { type Check, failed } from './check.ts';
import { checkChoice, checkGpus, checkLibrary, checkRates, isBuilt } from './devices.ts';
import { checkKernels } from './launch-kernels.ts';
import { checkFolder, checkNode, checkSystem, checkTools } from './system.ts';

/** @param tell called with each check's result as soon as it is known */
export async function examine(tell: (check: Check) => void = () => {}): Promise<Check[]> {
  const checks: Check[] = [];
  const add = (check: Check) => {
    checks.push(check);
    tell(check);
  };
  add(checkNode());
  add(checkSystem());
  const { check, hasGpu } = checkGpus();
  add(check);
  const libraries = (['cpu', 'cuda'] as const).map((kind) => ({ kind, ...checkLibrary(kind, hasGpu) }));
  for (const { check } of libraries) add(check);
  const [{ dtypes: ofCpu }] = libraries as [(typeof libraries)[0]];
  if (ofCpu.length > 0) add(await checkRates(ofCpu));
  add(checkChoice());
  for (const check of checkTools({ cpuIsBuilt: isBuilt('cpu'), cudaIsBuilt: isBuilt('cuda') || !hasGpu })) add(check);
  for (const folder of ['runs', 'data']) add(checkFolder(folder));
  const kernels = libraries.flatMap(({ kind, dtypes }) => dtypes.map((dtype) => ({ kind, dtype })));
  for (const { kind, dtype } of kernels) add(await checkKernels(kind, dtype));
  if (kernels.length === 0) {
    const { fix = 'npm run build:cpu' } = libraries[0]!.check;
    add(failed('kernels', 'no library opens here', fix));
  }
  return checks;
}
