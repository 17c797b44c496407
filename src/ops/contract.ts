// The contract of an op as data, which scripts/generate reads from cuda/gpt2.h: among others, which tensors an op writes, and
// thus how many bytes it moves.
import type { Bindings, Pointer } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import { bytesOf, type ElementType } from '../native/element-types.ts';

export type NativeArguments = Readonly<Record<string, number | Pointer | null>>;

export interface TensorContract {
  /**
   * In order: read; overwritten; added to; by the argument `accumulate` overwritten or added to; read and changed; overwritten or
   * left unchanged; scratch.
   */
  readonly access: 'read' | '=' | '+=' | 'accumulate' | 'updated' | 'kept' | 'scratch';
  /** "element" or "gradient" (types of the device), a type, or the name of the argument that says fp32 or bf16. */
  readonly type: string;
  /** Dimensions: "N", "3C", "S+1", "C/NH", "N/16", ">=T", "64". */
  readonly shape: readonly string[];
  /** For ids: the size that all ids are below. */
  readonly below?: string;
  /** For ids: whether -1 stands for no id. */
  readonly orNone?: boolean;
  /** The tensor of ids that says which rows the op accesses. */
  readonly by?: string;
  /** The dimension whose size is the number of elements, at the start of each row, that the op accesses. */
  readonly columns?: string;
  readonly isOptional?: boolean;
  /** Another tensor: both are null, or neither is. */
  readonly together?: string;
  /** The tensor is null unless this holds. */
  readonly where?: Where;
  /** Tensors that may share this tensor's memory. */
  readonly mayBe?: readonly string[];
}

/** A condition: an argument has a value or, with "!=", another value; a tensor is null or, with "!=", is not. */
export interface Where {
  readonly argument: string;
  readonly operator: '==' | '!=';
  readonly value: number | null;
  /** Whether the tensor that has this condition may be null even if it holds. */
  readonly orNull: boolean;
}

export interface OpContract {
  /** "normForward" */
  readonly name: string;
  /** "gpt2_norm_forward" */
  readonly symbol: string;
  /** The computation, in a sentence. */
  readonly formula: string;
  readonly tensors: Readonly<Record<string, TensorContract>>;
  /** Integers of at least 1; most are dimensions of tensors. */
  readonly sizes: readonly string[];
  readonly scalars: readonly string[];
  /** Booleans; 1 or 0 in C. */
  readonly flags: readonly string[];
  /** Whether the op takes the handle of a communicator. */
  readonly hasRanks?: boolean;
  readonly relations: readonly { readonly text: string; holds(args: NativeArguments): boolean }[];
  /** The scratch function and its sizes; absent for an op that needs no workspace. */
  workspace?(args: NativeArguments): { readonly name: keyof Bindings; readonly sizes: Record<string, number> };
}

/** The name of an op in cards and messages: its name in the header without gpt2_. */
export const nameOf = ({ symbol }: Pick<OpContract, 'symbol'>): string => symbol.replace(/^gpt2_/, '');

/** Conditions on arguments: a number has this value; a tensor is null, or is not. */
export type When = Readonly<Record<string, number | null | 'tensor'>>;

/** A variant of an op: what it computes in calls whose arguments meet its conditions. Each call is of one variant. */
export interface OpVariant {
  /** "norm_forward.layernorm"; the op's name for an op without variants: "gelu_forward". */
  readonly name: string;
  readonly op: OpContract;
  readonly when: When;
}

/** Whether a call meets conditions. @param args its numbers, and its tensors or their addresses: null for an omitted tensor */
export const meets = (args: Readonly<Record<string, unknown>>, when: When): boolean =>
  Object.entries(when).every(([name, value]) => (value === 'tensor' ? args[name] !== null : args[name] === value));

/** A dimension: `factor * name + plus`, or `name / divisor` rounded up; with `atLeast`, a tensor may be larger. */
export interface Dimension {
  readonly name?: string;
  readonly factor: number;
  readonly plus: number;
  readonly divisor?: string;
  readonly atLeast: boolean;
}

export function parseDimension(text: string): Dimension {
  const [, atLeast, factor, name, plus, divisor] = /^(>=)?(\d+)?(?:([A-Za-z]\w*)(?:\+(\d+)|\/(\w+))?)?$/.exec(
    text,
  ) as unknown as (string | undefined)[];
  if (name === undefined) return { factor: 0, plus: Number(factor), atLeast: false };
  return { name, factor: Number(factor ?? 1), plus: Number(plus ?? 0), divisor, atLeast: atLeast !== undefined };
}

/** The size of a dimension; undefined if it depends on an unknown size. */
export function sizeOf({ name, factor, plus, divisor }: Dimension, sizes: NativeArguments): number | undefined {
  if (name === undefined) return plus;
  const [size, by] = [sizes[name], divisor === undefined ? 1 : (sizes[divisor] ?? Number(divisor))];
  if (typeof size !== 'number' || typeof by !== 'number' || Number.isNaN(by)) return undefined;
  const result = (factor * size + plus) / by;
  // Without a divisor the size stays a fraction, so that a tensor that does not fit matches nothing.
  return divisor === undefined ? result : Math.ceil(result);
}

/** The type of a tensor on a device; undefined if an argument of the op says it. */
export function typeOn(device: Device, { type }: TensorContract): ElementType | undefined {
  if (type === 'element') return device.elementType;
  if (type === 'gradient') return device.gradientType;
  return type === 'fp32' || type === 'int32' || type === 'fp8' || type === 'int8' ? type : undefined;
}

export const holds = ({ argument, operator, value }: Where, args: NativeArguments): boolean =>
  (args[argument] === value) === (operator === '==');

/** Tensors that are null in all calls of a variant. */
export function absentIn({ op, when }: OpVariant): string[] {
  const isAbsent = (name: string): boolean => {
    const { together, where } = op.tensors[name]!;
    const isRefused = where !== undefined && where.argument in when && !holds(where, when as NativeArguments);
    return when[name] === null || isRefused || (together !== undefined && isAbsent(together));
  };
  return Object.keys(op.tensors).filter(isAbsent);
}

export const isWritten = ({ access }: TensorContract): boolean => access !== 'read';

/** Bytes that a call moves if it reads each input once and writes each output once. Tensors in the same memory count once. */
export function bytesMoved(device: Device, op: OpContract, args: NativeArguments): number {
  const count = ({ shape, columns }: TensorContract) => {
    const accessed = columns === undefined ? shape : shape.with(-1, columns);
    return accessed.reduce((product, text) => product * (sizeOf(parseDimension(text), args) ?? 1), 1);
  };
  const [read, written] = [new Map<unknown, number>(), new Map<unknown, number>()];
  for (const [name, tensor] of Object.entries(op.tensors)) {
    const pointer = args[name];
    if (pointer === null) continue;
    const { access, by, shape } = tensor;
    const rows = sizeOf(parseDimension(shape[0]!), args) ?? 1;
    const touched = by === undefined ? 1 : Math.min(1, count(op.tensors[by]!) / rows);
    const type = typeOn(device, tensor) ?? (args[tensor.type] === 0 ? 'fp32' : 'bf16');
    const bytes = touched * count(tensor) * bytesOf(type);
    const isRead = access === 'accumulate' ? args.accumulate === 1 : access !== '=' && access !== 'kept';
    if (isRead) read.set(pointer, Math.max(bytes, read.get(pointer) ?? 0));
    if (isWritten(tensor)) written.set(pointer, Math.max(bytes, written.get(pointer) ?? 0));
  }
  return [...read.values(), ...written.values()].reduce((sum, bytes) => sum + bytes, 0);
}
