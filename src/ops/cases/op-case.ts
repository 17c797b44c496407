// Types of an op's test cases: sizes, inputs, the formula in double precision, accepted errors, and the ways to call the op.
import type { Device, Dtype } from '../../native/device.ts';
import {
  absentIn,
  holds,
  isWritten,
  type NativeArguments,
  type OpContract,
  type OpVariant,
  type When,
} from '../contract.ts';
import { plainOps } from '../plain-ops.ts';
import { type ContractOf, type OpName, variantNamed } from '../variants.ts';
import type { Numbers, Random } from './case-numbers.ts';

export interface Calling {
  /** The op's argument `accumulate`: whether the op adds to its outputs instead of overwriting them. */
  readonly accumulate: boolean;
  readonly without: readonly string[];
  /** Outputs that are written over another tensor: { output: "name of the overwritten tensor" }. */
  readonly inPlace: Readonly<Record<string, string>>;
}

/** The largest accepted error of an output, by the precision of the op's operands (`precisionOf`). `tf32` defaults to `fp32`. */
export interface Bound {
  readonly fp32: number;
  readonly tf32?: number;
  readonly bf16: number;
  /**
   * `relative` (default): L2 norm of the error / L2 norm of the formula's result. The largest error / the largest element is checked
   * too, and may be five times the bound. `absolute`: the largest error of an element.
   */
  readonly measure?: 'relative' | 'absolute';
  /** Number of equal parts of the last dimension that are compared separately (3: q, k and v). Default 1. */
  readonly parts?: number;
}

/** Bounds of a few fp32 operations with a result in fp32, or in the device's element type: bf16 has 8 bits of mantissa. */
export const storedInFp32: Bound = { fp32: 1e-6, bf16: 1e-6 };
export const storedInElements: Bound = { fp32: 1e-6, bf16: 2e-3 };
/** The bound of a sum of many elements, computed in fp32. */
export const sumInFp32: Bound = { fp32: 1e-5, bf16: 1e-5 };

export interface Environment {
  readonly dtype: Dtype;
  /** The device's set of kernels: "avx512", "sm90", "portable", ... */
  readonly codePath: string;
  readonly without: readonly string[];
}

/** The sizes and scalar arguments of a case, by name. */
export type Sizes = Readonly<Record<string, number>>;

type Words<Text extends string> = Text extends `${infer Word} ${infer Rest}` ? Word | Words<Rest> : Text;

/** Short form of a list of sizes: `sizesOf('N C', '7x64 5x37', { eps })` is `[{ N: 7, C: 64, eps }, { N: 5, C: 37, eps }]`. */
export const sizesOf = <Names extends string, S extends object>(names: Names, rows: string, scalars = {} as S) =>
  rows.split(' ').map((row) => {
    const numbers = row.split('x').map(Number);
    const sizes = Object.fromEntries(names.split(' ').map((name, column) => [name, numbers[column]!]));
    return { ...(sizes as Readonly<Record<Words<Names>, number>>), ...scalars };
  });

interface Definition<Name extends string> {
  /** Sizes to test. The first is typical, aligned and larger than a tile; the command `doctor` runs only the first. */
  readonly sizes: readonly Sizes[];
  /** Large sizes, which only tests on GPUs use: the host takes seconds to compute the formula for them. */
  readonly gpuSizes?: readonly Sizes[];
  /** Standard deviation of the random numbers in tensors, by name. Default 1. */
  scale?(sizes: Sizes): Partial<Record<Name, number>>;
  /** Names of optional tensors that are null at these sizes, in every variant. */
  without?(sizes: Sizes): readonly Name[];
  /** Returns the inputs that are not normal random numbers or random ids, such as statistics, positions, and the step block. */
  inputs?(drawn: Record<Name, Numbers>, sizes: Sizes, random: Random): Partial<Record<Name, Numbers>>;
  /** Outputs in double, by name; if the op adds to an output, only the addend. Inputs that are null for the op are undefined. */
  formula(inputs: Record<Name, Numbers>, sizes: Sizes): Partial<Record<Name, Numbers>>;
  bounds(sizes: Sizes, environment: Environment): Partial<Record<Name, Bound>>;
  /** Number of multiplications and additions in the op's matmuls; absent for an op without matmuls. */
  flops?(sizes: Sizes): number;
  /** Whether a CPU computes the op's matmuls in fp32 in every dtype. */
  readonly isFp32OnCpu?: boolean;
}

export interface OpCases extends Definition<string> {
  readonly variant: OpVariant;
}

type Precise = Pick<Device, 'dtype' | 'elementType'>;

/** The precision of an op's operands: bf16 for matmuls on a CPU in dtype bf16, which round fp32 tensors; else the element type. */
export const precisionOf = (
  { flops, isFp32OnCpu }: OpCases,
  { dtype, elementType }: Precise,
): Precise['elementType'] => (dtype === 'bf16' && flops && !isFp32OnCpu ? 'bf16' : elementType);

/**
 * Whether an op must be tested in the device's dtype. In tf32 only matmuls differ from fp32. In fp8 only ops with FP8 tensors need
 * tests; other ops run as in bf16 (on a CPU, as in fp32). On a CPU in bf16 only ops with matmuls differ from fp32.
 */
export function isAffected(cases: OpCases, device: Precise): boolean {
  const { variant, bounds, sizes } = cases;
  const { dtype } = device;
  const absent = absentIn(variant);
  const isFp8 = Object.entries(variant.op.tensors).some(([name, { type }]) => type === 'fp8' && !absent.includes(name));
  if (isFp8 || dtype === 'fp8') return isFp8 && dtype === 'fp8';
  if (dtype === 'bf16') return precisionOf(cases, device) === 'bf16';
  return (
    dtype !== 'tf32' ||
    Object.values(bounds(sizes[0]!, { dtype, codePath: '', without: [] })).some((bound) => bound?.tf32)
  );
}

/** The formula of a fused op: the formulas of its plain ops, one after the other. @param cases must contain the plain ops' cases */
export const formulaOf =
  (fused: string, cases: readonly OpCases[]): OpCases['formula'] =>
  (inputs, sizes) => {
    const values = { ...inputs };
    for (const [plain, renamed] of plainOps.get(variantNamed(fused))!) {
      const { formula } = cases.find(({ variant }) => variant === plain)!;
      const opInputs = Object.keys(plain.op.tensors).map((name) => [name, values[renamed[name] ?? name]!] as const);
      for (const [name, result] of Object.entries(formula(Object.fromEntries(opInputs), sizes))) {
        values[renamed[name] ?? name] = result!;
      }
    }
    return values;
  };

/** Makes the cases of an op, or of a variant of an op, from their definition. */
export const casesOf = <Op extends OpName>(
  op: Op,
  definition: Definition<keyof ContractOf<Op>['tensors'] & string>,
): OpCases => ({ variant: variantNamed(op), ...(definition as Definition<string>) });

export const plain: Calling = { accumulate: false, without: [], inPlace: {} };

/** The ways to call an op that its contract allows: plain, accumulating, without each optional tensor, in place. */
export function callingsOf({ variant: { op, when } }: OpCases): Calling[] {
  // All tensors that the variant's conditions neither require nor forbid.
  const entries = Object.entries(op.tensors).filter(([name]) => !isDecided(name, op, when));
  const optional = entries
    .filter(([, { isOptional, together }]) => isOptional && together === undefined)
    .map(([name]) => [name, ...entries.filter(([, { together }]) => together === name).map(([other]) => other)]);
  const outputs = optional.filter(([name]) => isWritten(op.tensors[name!]!));
  return [
    plain,
    ...(op.flags.includes('accumulate') ? [{ ...plain, accumulate: true }] : []),
    ...optional.map((names) => ({ ...plain, without: names })),
    ...(outputs.length > 1 ? [{ ...plain, without: outputs.flat() }] : []),
    ...entries.flatMap(([name, { mayBe }]) => (mayBe ?? []).map((other) => ({ ...plain, inPlace: { [name]: other } }))),
  ];
}

/** Whether the conditions of a variant determine that a tensor is null, or is not null. */
function isDecided(name: string, op: OpContract, when: When): boolean {
  const { together, where } = op.tensors[name]!;
  if (name in when || (together !== undefined && together in when)) return true;
  // The tensor's condition decides if `when` fixes its argument, unless the tensor may be null although the condition holds.
  return where !== undefined && where.argument in when && !(where.orNull && holds(where, when as NativeArguments));
}

/** A label for a way to call an op: " (+=, without bias)", or "" for the plain call. */
export function labelOf({ accumulate, without: names, inPlace }: Calling): string {
  const parts = [
    ...(accumulate ? ['+='] : []),
    ...names.map((name) => `without ${name}`),
    ...Object.entries(inPlace).map(([name, other]) => `${name} in ${other}`),
  ];
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
