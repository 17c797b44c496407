// Runs a test case of an op on a device, in one of the ways that the op's contract allows (plain, accumulating, without an optional
// tensor, in place), and compares every output with the formula.
import type { Device } from '../../native/device.ts';
import { Tensor } from '../../native/tensor.ts';
import { absentIn, isWritten, type TensorContract, workspaceOf } from '../contract.ts';
import { enqueue, nativeArguments } from '../enqueue.ts';
import type { OpArguments } from '../replacements.ts';
import {
  distance,
  floats,
  largestDifference,
  largestOf,
  type Numbers,
  norm,
  numbersOf,
  worstError,
  writeNumbers,
} from './case-numbers.ts';
import { scaled, scaledColumnwise } from './fp8.ts';
import { GuardedTensors } from './guarded-tensors.ts';
import { type Bound, type Calling, labelOf, type OpCases, plain, precisionOf, type Sizes } from './op-case.ts';
import { elementType, prepare, shapeOf } from './prepared-case.ts';

/** An output of an op, or a part of one (such as q in dqkv), compared with the formula's result. */
export interface Comparison {
  /** The output: "din", "dqkv, part 2 of 3". */
  readonly tensor: string;
  readonly shape: readonly number[];
  readonly values: Numbers;
  readonly wanted: Numbers;
  readonly limit: number;
  /** Op, output and way to call the op: "norm_backward.layernorm: din (+=)". */
  readonly name: string;
  readonly error: number;
  readonly bound: number;
  readonly isWithin: boolean;
}

/** The fields, except `error`, of a comparison that fails before an error is computed. */
const failed = { limit: 0, bound: 0, isWithin: false };

/**
 * Runs a case and compares its results with the formula.
 * @param runs number of runs of the op, which must all give the same bits
 * @throws Gpt2Error if the op throws one
 */
export async function runCase(
  device: Device,
  cases: OpCases,
  sizes: Sizes,
  called = plain,
  runs = 1,
): Promise<Comparison[]> {
  const omitted = [...new Set([...called.without, ...(cases.without?.(sizes) ?? [])])];
  const calling = { ...called, without: [...omitted, ...absentIn(cases.variant)] };
  using tensors = new GuardedTensors(device);
  const { op } = cases.variant;
  const prepared = prepare(device, cases, sizes);
  const initial = without(prepared.drawn, calling.without);
  const { args, overwritten } = argumentsOf(device, cases, sizes, calling, { tensors, initial });
  device.reserveWorkspace(workspaceOf(device, op, nativeArguments(device, op, args)));
  const run = async () => {
    enqueue(device, op, args);
    await device.finished();
  };
  await run();
  const wanted = prepared.formula(initial, calling);
  const results = compare(device, cases, sizes, calling, args, initial, wanted);
  const outputs = Object.entries(op.tensors).flatMap(([name, contract]) => {
    const tensor = args[name];
    return isWritten(contract) && contract.access !== 'scratch' && tensor instanceof Tensor ? [{ name, tensor }] : [];
  });
  // Host memory is allocated for two runs and reused: allocating it for each run took half of a test's time.
  const hostMemory = () => (runs > 1 ? outputs.map(({ tensor }) => tensor.read()) : []);
  const [first, again] = [hostMemory(), hostMemory()];
  for (let repeat = 1; repeat < runs && results.every(({ isWithin }) => isWithin); repeat++) {
    for (const { name, tensor } of outputs) {
      const source = inPlaceOf(device, cases, name, calling) ?? name;
      if (!overwritten.has(source)) writeNumbers(tensor, initial[source]!);
    }
    await run();
    for (const [index, { name, tensor }] of outputs.entries()) {
      const [values, before] = [tensor.readInto(again[index]!), first[index]!];
      if (bytesAreEqual(values, before)) continue;
      const [held, exact] = [numbersOf(tensor, values), numbersOf(tensor, before)];
      const names = { tensor: `${name} of run ${repeat + 1}`, name: `${name}, other bits in run ${repeat + 1}` };
      const error = largestDifference(held, exact);
      results.push({ ...failed, ...names, shape: tensor.shape, values: held, wanted: exact, error });
    }
  }
  const label = labelOf({ ...called, without: omitted });
  const none = { ...failed, shape: [], values: new Float32Array(), wanted: new Float32Array(), error: 1 };
  const past = tensors.overwritten.map((tensor) => ({ ...none, tensor, name: `${tensor}, past its end` }));
  return [...results, ...past].map((result) => ({ ...result, name: `${cases.variant.name}: ${result.name}${label}` }));
}

/** The arguments of a call, and the names of the tensors that the op overwrites without reading. */
function argumentsOf(
  device: Device,
  cases: OpCases,
  sizes: Sizes,
  calling: Calling,
  { tensors, initial }: { readonly tensors: GuardedTensors; readonly initial: Record<string, Numbers> },
): { readonly args: OpArguments; readonly overwritten: ReadonlySet<string> } {
  const { op, when } = cases.variant;
  const overwritten = new Set<string>();
  const decided = Object.entries(when).filter(([name]) => op.scalars.includes(name));
  const args = { ...sizes, ...Object.fromEntries(decided) } as Record<string, Tensor | number | boolean | null>;
  for (const name of op.flags) args[name] = name === 'accumulate' ? calling.accumulate : sizes[name] === 1;
  for (const [name, contract] of Object.entries(op.tensors)) {
    if (calling.without.includes(name)) args[name] = null;
    else if (!inPlaceOf(device, cases, name, calling)) {
      const { access } = contract;
      const startsEmpty = access === '=' || access === 'scratch' || (access === 'accumulate' && !calling.accumulate);
      if (startsEmpty) overwritten.add(name);
      const values = startsEmpty ? undefined : initial[name];
      args[name] = tensors.tensor(name, shapeOf(contract, sizes), values, elementType(device, contract));
    }
  }
  for (const name of Object.keys(op.tensors)) {
    const other = inPlaceOf(device, cases, name, calling);
    if (other && args[name] !== null) args[name] = args[other]!;
  }
  return { args, overwritten };
}

const bytesAreEqual = (a: NodeJS.ArrayBufferView, b: NodeJS.ArrayBufferView): boolean =>
  Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));

function compare(
  device: Device,
  cases: OpCases,
  sizes: Sizes,
  { without }: Calling,
  args: Readonly<Record<string, unknown>>,
  initial: Record<string, Numbers>,
  wanted: Partial<Record<string, Numbers>>,
): Comparison[] {
  const bounds = cases.bounds(sizes, { dtype: device.dtype, codePath: device.description.codePath, without });
  const precision = precisionOf(cases, device);
  return Object.entries(bounds).flatMap(([name, bound]) => {
    const tensor = args[name];
    const contract = cases.variant.op.tensors[name]!;
    if (!(tensor instanceof Tensor) || !bound) return [];
    const addsTo = contract.access === '+=' || (contract.access === 'accumulate' && args.accumulate === true);
    const formula = wanted[name]!;
    const result = addsTo ? new Float64Array(formula).map((value, index) => value + initial[name]![index]!) : formula;
    const values = valuesOf(tensor, contract, args);
    const limit = device.dtype === 'tf32' ? (bound.tf32 ?? bound.fp32) : bound[precision];
    const isCoarse = tensor.type === 'fp8' || precision === 'bf16';
    return judged(name, values, result, { ...bound, limit, isCoarse }, shapeOf(contract, sizes));
  });
}

/** A tensor's elements. FP8 values are multiplied by the scale of their block, of their row, or of the whole weight. */
function valuesOf(tensor: Tensor, { shape }: TensorContract, args: Readonly<Record<string, unknown>>): Numbers {
  const { scale, columnwiseScale, factors } = args;
  const values = numbersOf(tensor, tensor.read());
  if (tensor.type !== 'fp8') return values;
  if (shape[1] === 'N/16') return scaledColumnwise(values, floats(columnwiseScale as Tensor), tensor.shape[1]!);
  return scaled(values, scale instanceof Tensor ? floats(scale) : floats(factors as Tensor)[0]!);
}

interface Limit extends Pick<Bound, 'measure' | 'parts'> {
  readonly limit: number;
  /** Whether rounding to few bits (bf16, FP8) causes the errors. */
  readonly isCoarse: boolean;
}

/** Compares an output with the formula's result. Each of `parts` equal column ranges is compared separately. */
function judged(
  name: string,
  values: Numbers,
  wanted: Numbers,
  { limit, isCoarse, measure, parts = 1 }: Limit,
  shape: readonly number[],
): Comparison[] {
  const whole = { tensor: name, name, shape, values, wanted };
  if (values.length !== wanted.length) return [{ ...whole, ...failed, error: Number.NaN }];
  if (measure === 'absolute') {
    const error = largestDifference(values, wanted);
    return [{ ...whole, limit, error, bound: limit, isWithin: error <= limit }];
  }
  // Widens the bound, for 64 rounded elements by half, because the mean square error of few elements varies. Zeros do not count.
  const rounded = isCoarse ? Math.max(1, wanted.filter((value) => value !== 0).length) : Number.POSITIVE_INFINITY;
  const scaled = limit * (1 + 4 / Math.sqrt(rounded));
  const normOfAll = norm(wanted);
  const width = shape.at(-1)!;
  return Array.from({ length: parts }, (_, part) => {
    const isIn = (_: number, index: number) => Math.floor((index % width) / (width / parts)) === part;
    const pick = (from: Numbers): Numbers => (parts === 1 ? from : from.filter(isIn));
    const [actual, exact] = [pick(values), pick(wanted)];
    const partNorm = norm(exact);
    // A part that cancels to zero (dq and dk of a single position) is compared relative to the norm of the whole output.
    const scale = partNorm > 1e-12 * normOfAll ? partNorm : normOfAll;
    const error = distance(actual, exact) / Math.max(scale, 1e-30);
    const worst = parts === 1 ? worstError(actual, exact) / 5 : 0;
    // False if an error is NaN.
    const isWithin = error <= scaled && worst <= scaled;
    const named = parts === 1 ? name : `${name}, part ${part + 1} of ${parts}`;
    return {
      ...{ tensor: named, name: named, shape: [...shape.slice(0, -1), width / parts], values: actual, wanted: exact },
      ...{ limit: 5 * scaled * largestOf(exact), error: worst > error ? worst : error, bound: scaled, isWithin },
    };
  });
}

const without = (inputs: Record<string, Numbers>, names: readonly string[]): Record<string, Numbers> =>
  Object.fromEntries(Object.entries(inputs).filter(([name]) => !names.includes(name)));

/**
 * The tensor that the output `name` overwrites: the caller's choice, or for an output with access `kept` always the same tensor (in
 * fp32 the weights are the master weights). Undefined if there is none, or its type differs from the output's.
 */
function inPlaceOf(device: Device, { variant: { op } }: OpCases, name: string, calling: Calling): string | undefined {
  const contract = op.tensors[name]!;
  const always = contract.access === 'kept' ? contract.mayBe?.[0] : undefined;
  const other = calling.inPlace[name] ?? always;
  if (other === undefined || calling.without.includes(other)) return undefined;
  return elementType(device, op.tensors[other]!) === elementType(device, contract) ? other : undefined;
}
