// Tests a device's implementation of an op against the op's formula: at every size of the op's cases, in every way to call the op.
import type { Device } from '../native/device.ts';
import { elementCount } from '../native/element-types.ts';
import { callingsOf, type OpCases } from '../ops/cases/op-case.ts';
import { prepare, shapeOf } from '../ops/cases/prepared-case.ts';
import { runCase } from '../ops/cases/run-case.ts';
import { absentIn } from '../ops/contract.ts';
import type { WrongTensor } from '../report/kernel-round.ts';
import { wrongLines, wrongTensor } from './describe-wrong.ts';

/** Runs of an op's plain call; all results must be equal in bits. Two runs suffice on a CPU, where work has a fixed order. */
const runs = { cuda: 20, cpu: 2 };
/** Most elements in a call's tensors. On a CPU the emulator takes 30 ns for an access, and kernels access each element many times. */
const mostElements = { cuda: Number.POSITIVE_INFINITY, cpu: 50_000 };

export interface TestedSize {
  /** The op's sizes: "N 128, C 768". */
  readonly sizes: string;
  readonly isRight: boolean;
  readonly results: number;
  /** The largest error of a correct result, as a percentage of the allowed error: "12%". */
  readonly error: string;
  /** Lines to print: a single one if all results are correct. */
  readonly lines: readonly string[];
  /** The first wrong tensor. */
  readonly wrong?: WrongTensor;
}

/** Sizes as text: "N 128, C 768". */
export const sizesText = (sizes: Readonly<Record<string, number>>): string =>
  Object.entries(sizes)
    .map(([name, size]) => `${name} ${Number.isInteger(size) ? size : Number(size.toPrecision(4))}`)
    .join(', ');

/**
 * Tests an op, size by size. Only the op's first wrong tensor gets a map of the wrong elements.
 * @param once calls the op once per size, because a tool such as compute-sanitizer slows kernels
 */
export async function* testOp(
  device: Device,
  cases: OpCases,
  { allSizes = false, once = false }: { readonly allSizes?: boolean; readonly once?: boolean },
): AsyncGenerator<TestedSize> {
  const { library } = device.description;
  const absent = absentIn(cases.variant);
  const elements = (sizes: Readonly<Record<string, number>>) =>
    Object.entries(cases.variant.op.tensors)
      .filter(([name]) => !absent.includes(name))
      .reduce((sum, [, tensor]) => sum + elementCount(shapeOf(tensor, sizes)), 0);
  // The smallest size is tested even if it is over the limit.
  const most = Math.max(mostElements[library], Math.min(...cases.sizes.map(elements)));
  // On a CPU `allSizes` excludes the sizes for GPUs, because the emulator would take minutes.
  const chosen = allSizes
    ? [...cases.sizes, ...((library === 'cuda' && cases.gpuSizes) || [])]
    : cases.sizes.filter((sizes) => elements(sizes) <= most);
  let isDrawn = false;
  for (const sizes of chosen) {
    const text = sizesText(sizes);
    const wrong: WrongTensor[] = [];
    let [share, results] = [0, 0];
    for (const [index, calling] of callingsOf(cases).entries()) {
      for (const result of await runCase(device, cases, sizes, calling, index === 0 && !once ? runs[library] : 1)) {
        results++;
        if (result.isWithin) {
          if (result.bound > 0) share = Math.max(share, result.error / result.bound);
          continue;
        }
        wrong.push(wrongTensor(result, cases.variant.op, prepare(device, cases, sizes).drawn, sizes));
      }
      // After a wrong result skip the other ways to call the op: most likely they fail at the same element.
      if (wrong.length > 0) break;
    }
    const isRight = wrong.length === 0;
    const error = `${(100 * share).toFixed(0)}%`;
    const lines = isRight
      ? [`right: ${results} results, errors up to ${error} of the bound`]
      : wrong.flatMap((one, index) => (isDrawn || index > 0 ? [one.sentence] : wrongLines(one)));
    isDrawn ||= !isRight;
    yield { sizes: text, isRight, results, error, lines, wrong: wrong[0] };
  }
}
