// Looks at everything that training needs, in the order in which one thing builds on another. It writes nothing.
import { type Check, failed } from './check.ts';
import { checkChoice, checkGpus, checkLibrary, isBuilt, openableDtypes } from './devices.ts';
import { checkKernels } from './kernels.ts';
import { checkFolder, checkNode, checkSystem, checkTools } from './system.ts';

/** @param tell is told each check as it is done */
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
    const { mend = 'npm run build:cpu' } = checks.find(({ name }) => name === 'cpu library')!;
    add(failed('kernels', 'no library opens here', mend));
  }
  return checks;
}
