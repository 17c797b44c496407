// Checks kernels for `doctor`: runs every op once on a device, at the first size of its cases, and compares it with the op's formula.
import { expected } from '../../base/errors.ts';
import { isInstalled } from '../../base/wording.ts';
import { Device, type Dtype, elementTypesOf } from '../../native/device.ts';
import type { LibraryKind } from '../../native/find-library.ts';
import { opCases } from '../../ops/cases/index.ts';
import { isAffected } from '../../ops/cases/op-case.ts';
import { runCase } from '../../ops/cases/run-case.ts';
import { type Check, failed, ok } from './check.ts';

export async function checkKernels(kind: LibraryKind, dtype: Dtype): Promise<Check> {
  const name = `kernels of ${kind} ${dtype}`;
  // Only a clone has the tests, so an installed package does not point to them.
  const look = isInstalled ? '' : `, then scripts/test${kind === 'cuda' ? '-gpu' : ''} for details`;
  const fix = `npm run build:${kind}${look}`;
  const precise = { dtype, ...elementTypesOf({ kind, dtype }) };
  const families = Object.entries(opCases)
    .map(([family, list]) => [family, list.filter((each) => isAffected(each, precise))] as const)
    .filter(([, list]) => list.length > 0);
  const begin = performance.now();
  try {
    using device = Device.open({ kind, dtype });
    for (const [family, list] of families) {
      for (const cases of list) {
        const wrong = (await runCase(device, cases, cases.sizes[0]!)).find(({ isWithin }) => !isWithin);
        if (!wrong) continue;
        return failed(name, `${family}: ${wrong.name} has error ${wrong.error}, over ${wrong.bound}`, fix);
      }
    }
  } catch (error) {
    return failed(name, expected(error).message, fix);
  }
  const names = families.map(([family]) => family);
  const ms = (performance.now() - begin).toFixed(0);
  return ok(name, `${names.join(', ')}: ${names.length} families equal their formulas, in ${ms} ms`);
}
