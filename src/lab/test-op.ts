// Tests an op's implementation on a device against the op's formula, at the op suite's sizes, in every way to call it.
import type { Device } from '../native/device.ts';
import { elementCount } from '../native/element-types.ts';
import { callingsOf, type OpCases } from '../ops/cases/op-case.ts';
import { prepare, shapeOf } from '../ops/cases/prepared-case.ts';
import { runCase } from '../ops/cases/run-case.ts';
import { absentIn } from '../ops/contract.ts';
import type { WrongTensor } from '../report/kernel-round.ts';
import { wrongLines, wrongTensor } from './describe-wrong.ts';

/** Repeats of a plain call; all must give the same bits. On a CPU blocks and threads always run in the same order. */
const runs = { cuda: 20, cpu: 2 };
/**
 * Most elements in the tensors of a call. With checks a CPU takes about 30 ns an access, and kernels read an element many times.
 */
const mostElements = { cuda: Number.POSITIVE_INFINITY, cpu: 50_000 };

export interface TestedSize {
  /** "N 128, C 768" */
  readonly sizes: string;
  readonly isRight: boolean;
  readonly results: number;
  /** The largest error of a right result, as a share of its bound: "12%". */
  readonly error: string;
  /** Lines to print: a single one if the result is right. */
  readonly lines: readonly string[];
  /** The first tensor that is wrong. */
  readonly wrong?: WrongTensor;
}

/** "N 128, C 768" */
export const sizesText = (sizes: Readonly<Record<string, number>>): string =>
  Object.entries(sizes)
    .map(([name, size]) => `${name} ${Number.isInteger(size) ? size : Number(size.toPrecision(4))}`)
    .join(', ');

/**
 * Tests size after size; draws a map only of the first wrong tensor of the op.
 * @param runs calls each size once, for use under a tool that slows kernels
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
  // The smallest size is always tested.
  const most = Math.max(mostElements[library], Math.min(...cases.sizes.map(elements)));
  // The CPU would emulate the sizes for GPUs for minutes.
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
      // The other ways to call are most likely wrong at the same place.
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
