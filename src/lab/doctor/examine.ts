// Runs all checks of `doctor`, in an order in which each check finds the results it depends on. No check writes a file.
import { type Check, failed } from './check.ts';
import { checkChoice, checkGpus, checkLibrary, checkRates, isBuilt } from './devices.ts';
import { checkKernels } from './launch-kernels.ts';
import { checkFolder, checkNode, checkSystem, checkTools } from './system.ts';

export async function* examine(): AsyncGenerator<Check> {
  yield checkNode();
  yield checkSystem();
  const { check, hasGpu } = checkGpus();
  yield check;
  const libraries = (['cpu', 'cuda'] as const).map((kind) => ({ kind, ...checkLibrary(kind, hasGpu) }));
  for (const { check } of libraries) yield check;
  const [{ dtypes: ofCpu }] = libraries as [(typeof libraries)[0]];
  if (ofCpu.length > 0) yield checkRates(ofCpu);
  yield checkChoice();
  yield* checkTools({ cpuIsBuilt: isBuilt('cpu'), cudaIsBuilt: isBuilt('cuda') || !hasGpu });
  yield* ['runs', 'data'].map(checkFolder);
  const kernels = libraries.flatMap(({ kind, dtypes }) => dtypes.map((dtype) => ({ kind, dtype })));
  for (const { kind, dtype } of kernels) yield checkKernels(kind, dtype);
  if (kernels.length === 0) {
    const { fix = 'npm run build:cpu' } = libraries[0]!.check;
    yield failed('kernels', 'no library opens here', fix);
  }
}
