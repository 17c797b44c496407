// The form of an op's cases: sizes, inputs, the formula in double precision, and how far a result may be from it.
import type { Dtype } from '../native/device.ts';
import type { OpContract } from '../ops/contract.ts';
import type { Numbers, Random } from './numbers.ts';

/** The largest error that is accepted, by dtype; tf32's is fp32's if absent. */
export interface Bound {
  readonly fp32: number;
  readonly tf32?: number;
  readonly bf16: number;
  /**
   * `relative` (default): the norm of the difference by the norm of the formula's result; the worst element, by the largest, may
   * be off by five times as much. `absolute`: the largest difference.
   */
  readonly measure?: 'relative' | 'absolute';
  /** Columns of the last dimension are judged in this many equal parts (3: q, k and v). Default 1. */
  readonly parts?: number;
}

export interface Environment {
  readonly dtype: Dtype;
  /** "avx512", "sm90", "portable": see DeviceDescription. */
  readonly codePath: string;
}

type Sizes = Readonly<Record<string, number>>;

interface Definition<Name extends string> {
  /** Sizes, with scalars. The first is typical, aligned and larger than a tile: `doctor` runs it. */
  readonly sizes: readonly Sizes[];
  /** Sizes that only a GPU is given: the formula takes seconds. */
  readonly gpuSizes?: readonly Sizes[];
  /** Standard deviation of a tensor's numbers. Default 1. */
  scale?(sizes: Sizes): Partial<Record<Name, number>>;
  /** Replaces inputs that are not plain normal numbers or ids: statistics, positions, step values. */
  inputs?(drawn: Record<Name, Numbers>, sizes: Sizes, random: Random): Partial<Record<Name, Numbers>>;
  /** Results in double, by name of the output; for an output that is added to, the addend. Absent inputs are undefined. */
  formula(inputs: Record<Name, Numbers>, sizes: Sizes): Partial<Record<Name, Numbers>>;
  bounds(sizes: Sizes, environment: Environment): Partial<Record<Name, Bound>>;
  /** Multiplications and additions of the op's products; absent if it only moves data. */
  flops?(sizes: Sizes): number;
}

export interface OpCases extends Definition<string> {
  readonly op: OpContract;
}

/** Whether an op's results differ between fp32 and a dtype: in tf32 only those of products do. */
export const isAffected = ({ bounds, sizes }: OpCases, dtype: Dtype): boolean =>
  dtype !== 'tf32' || Object.values(bounds(sizes[0]!, { dtype, codePath: '' })).some((bound) => bound?.tf32);

/** The cases of one op. */
export const casesOf = <Op extends OpContract>(
  op: Op,
  definition: Definition<keyof Op['tensors'] & string>,
): OpCases => ({
  op,
  ...(definition as Definition<string>),
});
