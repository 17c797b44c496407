// Checks everything that training needs, each check after those it depends on. It writes nothing.
import { type Check, failed } from './check.ts';
import { checkChoice, checkGpus, checkLibrary, isBuilt, openableDtypes } from './devices.ts';
import { checkKernels } from './kernels.ts';
import { checkFolder, checkNode, checkSystem, checkTools } from './system.ts';

/** @param tell called with each check when it is done */
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
  for (const kind of ['cpu', 'cuda'] as const) add(checkLibrary(kind, { hasGpu }));
  add(checkChoice());
  for (const check of checkTools({ cpuIsBuilt: isBuilt('cpu'), cudaIsBuilt: isBuilt('cuda') || !hasGpu })) add(check);
  for (const folder of ['runs', 'data']) add(checkFolder(folder));
  let launched = 0;
  for (const kind of ['cpu', 'cuda'] as const) {
    for (const dtype of openableDtypes(kind)) {
      add(await checkKernels(kind, dtype));
      launched++;
    }
  }
  if (launched === 0) {
    const { fix = 'npm run build:cpu' } = checks.find(({ name }) => name === 'cpu library')!;
    add(failed('kernels', 'no library opens here', fix));
  }
  return checks;
}
