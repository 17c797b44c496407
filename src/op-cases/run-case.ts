// Runs a case of an op on a device and compares every output with the formula, in all variants of the contract: without optional
// tensors, accumulating, and in place.
import { type ElementType, elementCount, Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { parseDimension, sizeOf, type TensorContract, typeOn } from '../ops/contract.ts';
import { enqueue, type OpArguments, workspaceOf } from '../ops/enqueue.ts';
import { GuardedTensors } from './guarded-tensors.ts';
import { floats, held, largestDifference, type Numbers, norm, Random, worstError } from './numbers.ts';
import type { Bound, OpCases } from './op-case.ts';

type Sizes = Readonly<Record<string, number>>;

/** One way to call a case. */
export interface Variant {
  readonly accumulate: boolean;
  /** Optional tensors that are omitted. */
  readonly without: readonly string[];
  /** Outputs that share the memory of an input, by name. */
  readonly inPlace: Readonly<Record<string, string>>;
}

export interface Comparison {
  /** "gpt2_layernorm_backward: din" and the variant. */
  readonly name: string;
  readonly error: number;
  readonly bound: number;
  readonly isWithin: boolean;
}

export const plain: Variant = { accumulate: false, without: [], inPlace: {} };

/** Runs a case once and compares. @throws Gpt2Error as the op */
export async function runCase(device: Device, cases: OpCases, sizes: Sizes, variant = plain): Promise<Comparison[]> {
  using tensors = new GuardedTensors(device);
  const { op } = cases;
  const prepared = prepare(device, cases, sizes);
  const initial = without(prepared.drawn, variant.without);
  const args: Record<string, Tensor | number | boolean | null> = { ...sizes, ...flagsOf(cases, sizes, variant) };
  for (const [name, contract] of Object.entries(op.tensors)) {
    if (variant.without.includes(name)) args[name] = null;
    else if (!inPlaceOf(device, cases, name, variant)) {
      const startsEmpty = contract.access === '=' || contract.access === 'scratch' || overwrites(contract, args);
      args[name] = tensors.tensor(
        name,
        shapeOf(contract, sizes),
        startsEmpty ? undefined : initial[name],
        elementType(device, contract),
      );
    }
  }
  for (const name of Object.keys(op.tensors)) {
    const other = inPlaceOf(device, cases, name, variant);
    if (other && args[name] !== null) args[name] = args[other]!;
  }
  device.reserveWorkspace(workspaceOf(device, op, args as OpArguments));
  enqueue(device, op, args as OpArguments);
  await device.finished();
  const wanted = prepared.formula(initial, variant);
  const results = compare(device, cases, sizes, args, initial, wanted);
  const label = labelOf(variant);
  const past = tensors.overwritten.map((name) => ({
    name: `${name}, past its end`,
    error: 1,
    bound: 0,
    isWithin: false,
  }));
  return [...results, ...past].map((result) => ({ ...result, name: `${op.symbol}: ${result.name}${label}` }));
}

function compare(
  device: Device,
  cases: OpCases,
  sizes: Sizes,
  args: Readonly<Record<string, unknown>>,
  initial: Record<string, Numbers>,
  wanted: Partial<Record<string, Numbers>>,
): Comparison[] {
  const bounds = cases.bounds(sizes, { dtype: device.dtype, codePath: device.description.codePath });
  return Object.entries(bounds).flatMap(([name, bound]) => {
    const tensor = args[name];
    const contract = cases.op.tensors[name]!;
    if (!(tensor instanceof Tensor) || !bound) return [];
    const addsTo = contract.access === '+=' || (contract.access === 'accumulate' && args.accumulate === true);
    const formula = wanted[name]!;
    const result = addsTo ? Float64Array.from(formula, (value, index) => value + initial[name]![index]!) : formula;
    const values = tensor.type === 'int32' ? (tensor.read() as Int32Array) : floats(tensor);
    return judged(device, name, values, result, bound, shapeOf(contract, sizes).at(-1)!);
  });
}

/** Compares every part of an output with its bound. */
function judged(
  device: Device,
  name: string,
  values: Numbers,
  wanted: Numbers,
  bound: Bound,
  width: number,
): Comparison[] {
  const { dtype } = device;
  if (values.length !== wanted.length) return [{ name, error: Number.NaN, bound: 0, isWithin: false }];
  const limit = dtype === 'tf32' ? (bound.tf32 ?? bound.fp32) : bound[dtype];
  if (bound.measure === 'absolute') {
    const error = largestDifference(values, wanted);
    return [{ name, error, bound: limit, isWithin: error <= limit }];
  }
  // The mean square of few roundings varies: by a third for 64 elements.
  const scaled = limit * (dtype === 'bf16' ? 1 + 4 / Math.sqrt(wanted.length) : 1);
  const { parts = 1 } = bound;
  const whole = norm(wanted);
  return Array.from({ length: parts }, (_, part) => {
    const pick = (from: Numbers) => (parts === 1 ? from : columns(from, width, part, parts));
    const [actual, exact] = [pick(values), pick(wanted)];
    const own = norm(exact);
    // A part that is zero by cancellation (dq and dk of a single position) is compared with the norm of the entire output.
    const scale = own > 1e-12 * whole ? own : whole;
    const error = norm(Float64Array.from(exact, (value, index) => actual[index]! - value)) / Math.max(scale, 1e-30);
    const worst = parts === 1 ? worstError(actual, exact) / 5 : 0;
    // NaN compares false.
    const isWithin = error <= scaled && worst <= scaled;
    const named = parts === 1 ? name : `${name}, part ${part + 1} of ${parts}`;
    return { name: named, error: worst > error ? worst : error, bound: scaled, isWithin };
  });
}

function columns(values: Numbers, width: number, part: number, parts: number): Float64Array {
  const own = width / parts;
  return Float64Array.from({ length: values.length / parts }, (_, index) => {
    return values[Math.floor(index / own) * width + part * own + (index % own)]!;
  });
}

interface Prepared {
  readonly key: string;
  readonly cases: OpCases;
  readonly drawn: Record<string, Numbers>;
  /** Results of the formula, computed once for variants that do not change them. */
  formula(initial: Record<string, Numbers>, variant: Variant): Partial<Record<string, Numbers>>;
}

/** The variants of a size follow each other, and the formula of a large one takes seconds. */
let last: Prepared | undefined;

function prepare(device: Device, cases: OpCases, sizes: Sizes): Prepared {
  const key = JSON.stringify([sizes, device.elementType, device.gradientType]);
  if (last?.key === key && last.cases === cases) return last;
  const results = new Map<string, Partial<Record<string, Numbers>>>();
  // A tensor that is `updated` holds the sum itself where the op accumulates; others get an addend.
  const accumulates = Object.values(cases.op.tensors).every(({ access }) => access !== 'accumulate');
  const formula: Prepared['formula'] = (initial, { accumulate, without: names }) => {
    const variant = JSON.stringify([names, accumulates && accumulate]);
    const known = results.get(variant) ?? cases.formula(initial, { ...sizes, accumulate: accumulate ? 1 : 0 });
    results.set(variant, known);
    return known;
  };
  last = { key, cases, drawn: drawInputs(device, cases, sizes), formula };
  return last;
}

/** The values that tensors begin with, as the device holds them: normal numbers, ids, or what the case gives. */
function drawInputs(device: Device, cases: OpCases, sizes: Sizes): Record<string, Numbers> {
  const random = new Random(Object.values(sizes).reduce((sum, size) => sum + Math.ceil(size), 0));
  const drawn: Record<string, Numbers> = {};
  const scale = cases.scale?.(sizes);
  for (const [name, contract] of Object.entries(cases.op.tensors)) {
    const count = elementCount(shapeOf(contract, sizes));
    const type = elementType(device, contract);
    if (type === 'int32') drawn[name] = random.integers(count, sizes[contract.below ?? ''] ?? 1);
    else drawn[name] = held(type, random.normals(count, scale?.[name] ?? 1));
  }
  return { ...drawn, ...(cases.inputs?.(drawn, sizes, random) as Record<string, Numbers> | undefined) };
}

const without = (inputs: Record<string, Numbers>, names: readonly string[]): Record<string, Numbers> =>
  Object.fromEntries(Object.entries(inputs).filter(([name]) => !names.includes(name)));

const shapeOf = ({ shape }: TensorContract, sizes: Sizes): number[] =>
  shape.map((text) => sizeOf(parseDimension(text), sizes)!);

/** A tensor whose type is an argument (adamw's gradient) gets the gradients' type. */
const elementType = (device: Device, contract: TensorContract): ElementType =>
  typeOn(device, contract) ?? device.gradientType;

const overwrites = ({ access }: TensorContract, args: Readonly<Record<string, unknown>>): boolean =>
  access === 'accumulate' && args.accumulate !== true;

const flagsOf = ({ op }: OpCases, sizes: Sizes, { accumulate }: Variant): Record<string, boolean> =>
  Object.fromEntries(op.flags.map((name) => [name, name === 'accumulate' ? accumulate : sizes[name] === 1]));

/**
 * The tensor whose memory `name` shares: by the variant, if both have the same type; always for two updated tensors (weights
 * that are their own masters).
 */
function inPlaceOf(device: Device, { op }: OpCases, name: string, variant: Variant): string | undefined {
  const contract = op.tensors[name]!;
  const isUpdated = (other: TensorContract) => other.access === 'updated';
  const always = contract.mayBe?.find((other) => isUpdated(contract) && isUpdated(op.tensors[other]!));
  const other = variant.inPlace[name] ?? always;
  if (other === undefined || variant.without.includes(other)) return undefined;
  return elementType(device, op.tensors[other]!) === elementType(device, contract) ? other : undefined;
}

function labelOf({ accumulate, without: names, inPlace }: Variant): string {
  const parts = [
    ...(accumulate ? ['+='] : []),
    ...names.map((name) => `without ${name}`),
    ...Object.entries(inPlace).map(([name, other]) => `${name} in ${other}`),
  ];
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
