// Computes and caches a test case's inputs and the formula's results. The cache helps because all ways to call an op use the same inputs,
// and because a kernel under development is tested repeatedly.
import type { Device } from '../../native/device.ts';
import { type ElementType, elementCount } from '../../native/element-types.ts';
import { absentIn, parseDimension, sizeOf, type TensorContract, typeOn } from '../contract.ts';
import { held, type Numbers, Random } from './case-numbers.ts';
import { type Calling, type OpCases, precisionOf, type Sizes } from './op-case.ts';

interface Prepared {
  readonly key: string;
  readonly cases: OpCases;
  readonly drawn: Record<string, Numbers>;
  /** Results of the formula, computed once for all ways to call the op that have the same results. */
  formula(initial: Record<string, Numbers>, calling: Calling): Partial<Record<string, Numbers>>;
}

/** The cached cases, the newest at the end. The oldest are dropped while all cases together have more than `mostNumbers` inputs. */
const kept: Prepared[] = [];
const mostNumbers = 2 ** 24;

export function prepare(device: Device, cases: OpCases, sizes: Sizes): Prepared {
  const key = JSON.stringify([sizes, device.dtype, device.elementType, device.gradientType]);
  const known = kept.find((each) => each.key === key && each.cases === cases);
  if (known) return known;
  const results = new Map<string, Partial<Record<string, Numbers>>>();
  // For a tensor with access `accumulate`, the formula gives only the addend: accumulating and overwriting calls share one result.
  const accumulates = Object.values(cases.variant.op.tensors).every(({ access }) => access !== 'accumulate');
  const formula: Prepared['formula'] = (initial, { accumulate, without: names }) => {
    const key = JSON.stringify([names, accumulates && accumulate]);
    const known = results.get(key) ?? cases.formula(initial, { ...sizes, accumulate: accumulate ? 1 : 0 });
    results.set(key, known);
    return known;
  };
  const made = { key, cases, drawn: drawInputs(device, cases, sizes), formula };
  kept.push(made);
  const numbers = () => kept.flatMap(({ drawn }) => Object.values(drawn)).reduce((sum, { length }) => sum + length, 0);
  while (kept.length > 1 && numbers() > mostNumbers) kept.shift();
  return made;
}

/** Initial values of a variant's tensors: from the case's `inputs`, else random ids (int32) or rounded normal random numbers. */
function drawInputs(device: Device, cases: OpCases, sizes: Sizes): Record<string, Numbers> {
  const random = new Random(Object.values(sizes).reduce((sum, size) => sum + Math.ceil(size), 0));
  const drawn: Record<string, Numbers> = {};
  const scale = cases.scale?.(sizes);
  const absent = absentIn(cases.variant);
  for (const [name, contract] of Object.entries(cases.variant.op.tensors)) {
    if (absent.includes(name)) continue;
    const count = elementCount(shapeOf(contract, sizes));
    const type = elementType(device, contract);
    if (type === 'int32') {
      const ids = random.integers(count, sizes[contract.below ?? ''] ?? 1);
      drawn[name] = contract.orNone ? ids.map((id, index) => (index % 5 === 4 ? -1 : id)) : ids;
      continue;
    }
    const precision = contract.type === 'element' ? precisionOf(cases, device) : type;
    drawn[name] = held(precision, random.normals(count, scale?.[name] ?? 1));
  }
  return { ...drawn, ...(cases.inputs?.(drawn, sizes, random) as Record<string, Numbers> | undefined) };
}

export const shapeOf = ({ shape }: TensorContract, sizes: Sizes): number[] =>
  shape.map((text) => sizeOf(parseDimension(text), sizes)!);

/** The element type of a tensor: by the contract or, if an argument of the op determines the type, the device's type of gradients. */
export const elementType = (device: Device, contract: TensorContract): ElementType =>
  typeOn(device, contract) ?? device.gradientType;
