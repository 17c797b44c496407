// Types of an op's contract: its tensors, their shapes and types, and which of them the op writes. scripts/generate makes the contracts
// from cuda/gpt2.h. Functions here compute sizes, types and moved bytes from a contract.
import type { Bindings, Pointer } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import { bytesOf, type ElementType } from '../native/element-types.ts';

export type NativeArguments = Readonly<Record<string, number | Pointer | null>>;

export interface TensorContract {
  /**
   * The op's access to the tensor: 'read'; '=' overwritten; '+=' added to; 'accumulate' either, by the argument `accumulate`;
   * 'updated' read and changed; 'kept' overwritten or left unchanged; 'scratch'.
   */
  readonly access: 'read' | '=' | '+=' | 'accumulate' | 'updated' | 'kept' | 'scratch';
  /** The elements' type: "element" or "gradient" (types of the device), "fp32" etc., or an argument that is GPT2_FP32 or GPT2_BF16. */
  readonly type: string;
  /** Dimensions as expressions of the op's sizes: "N", "3C", "S+1", "C/NH", "N/16", ">=T", "64". */
  readonly shape: readonly string[];
  /** For a tensor of ids: the name of a size, such as V; all ids must be less than this size. */
  readonly below?: string;
  /** For a tensor of ids: whether an id may be -1, for none. */
  readonly orNone?: boolean;
  /** The name of a tensor of ids: the op accesses only those rows of this tensor whose index is one of these ids. */
  readonly by?: string;
  /** The number of elements at the start of each row that the op accesses, as a dimension. Default: whole rows. */
  readonly columns?: string;
  readonly isOptional?: boolean;
  /** The name of another tensor; either both tensors are null or neither is. */
  readonly together?: string;
  /** A condition without which the tensor must be null. */
  readonly where?: Where;
  /** Names of tensors that may be in the memory of this tensor. */
  readonly mayBe?: readonly string[];
}

/** A condition on an argument of an op, such as `activation != 0`; for a tensor, `value` null means that the tensor is null. */
export interface Where {
  readonly argument: string;
  readonly operator: '==' | '!=';
  readonly value: number | null;
  /** Whether the tensor with this condition may be null even if the condition holds. */
  readonly orNull: boolean;
}

export interface OpContract {
  /** Name in TypeScript: "normForward". */
  readonly name: string;
  /** Name of the C function: "gpt2_norm_forward". */
  readonly symbol: string;
  /** A sentence that says what the op computes. */
  readonly formula: string;
  readonly tensors: Readonly<Record<string, TensorContract>>;
  /** Names of arguments that are integers of at least 1; most are dimensions of tensors. */
  readonly sizes: readonly string[];
  readonly scalars: readonly string[];
  /** Names of boolean arguments, passed to C as 1 or 0. */
  readonly flags: readonly string[];
  /** Whether the op has an argument `communicator`, for ranks. */
  readonly hasRanks?: boolean;
  readonly relations: readonly { readonly text: string; holds(args: NativeArguments): boolean }[];
  /** The library's function that computes the scratch of a call, and the function's arguments; absent for an op without scratch. */
  workspace?(args: NativeArguments): { readonly name: keyof Bindings; readonly sizes: Record<string, number> };
}

/** An op's name in kernel cards and messages: "norm_forward", the C function without gpt2_. */
export const nameOf = ({ symbol }: Pick<OpContract, 'symbol'>): string => symbol.replace(/^gpt2_/, '');

/** Conditions on arguments by name: a number has this value; a tensor is null (null) or is not null ('tensor'). */
export type When = Readonly<Record<string, number | null | 'tensor'>>;

/** A variant of an op: the function that the op computes if a call's arguments meet the conditions `when`. Each call has one variant. */
export interface OpVariant {
  /** The variant's name: "norm_forward.layernorm". The plain variant, or an only variant, has the op's name: "gelu_forward". */
  readonly name: string;
  readonly op: OpContract;
  readonly when: When;
}

/** Whether a call's arguments meet conditions. @param args numbers, and tensors or their addresses; null for an omitted tensor */
export const meets = (args: Readonly<Record<string, unknown>>, when: When): boolean =>
  Object.entries(when).every(([name, value]) => (value === 'tensor' ? args[name] !== null : args[name] === value));

/** A dimension of a tensor: `factor * name + plus`, or `name / divisor` rounded up; with `atLeast`, the tensor may be larger. */
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

/** The value of a dimension for the sizes of a call; undefined if the dimension depends on an unknown size. */
export function sizeOf({ name, factor, plus, divisor }: Dimension, sizes: NativeArguments): number | undefined {
  if (name === undefined) return plus;
  const [size, by] = [sizes[name], divisor === undefined ? 1 : (sizes[divisor] ?? Number(divisor))];
  if (typeof size !== 'number' || typeof by !== 'number' || Number.isNaN(by)) return undefined;
  const result = (factor * size + plus) / by;
  // Without a divisor, a fraction is not rounded. No tensor has a size that is a fraction, so the check of shapes reports an error.
  return divisor === undefined ? result : Math.ceil(result);
}

/** The element type of a tensor on a device; undefined if an argument of the op determines the type. */
export function typeOn(device: Device, { type }: TensorContract): ElementType | undefined {
  if (type === 'element') return device.elementType;
  if (type === 'gradient') return device.gradientType;
  return type === 'fp32' || type === 'int32' || type === 'fp8' || type === 'int8' ? type : undefined;
}

/** Bytes of scratch that the library's function `name` computes from sizes. */
export function scratch(
  device: Device,
  name: keyof Bindings,
  sizes: Readonly<Record<string, number | boolean>>,
): number {
  const numbers = Object.fromEntries(Object.entries(sizes).map(([key, value]) => [key, Number(value)]));
  const bytes = new BigInt64Array(1);
  device.call(name as 'normScratch', { ...numbers, bytes } as never);
  return Number(bytes[0]);
}

/** Bytes of workspace that a call needs. */
export function workspaceOf(device: Device, op: OpContract, args: NativeArguments): number {
  const needs = op.workspace?.(args);
  return needs ? scratch(device, needs.name, needs.sizes) : 0;
}

export const holds = ({ argument, operator, value }: Where, args: NativeArguments): boolean =>
  (args[argument] === value) === (operator === '==');

/** Names of the tensors that are null in all calls of a variant. */
export function absentIn({ op, when }: OpVariant): string[] {
  const isAbsent = (name: string): boolean => {
    const { together, where } = op.tensors[name]!;
    const isRefused = where !== undefined && where.argument in when && !holds(where, when as NativeArguments);
    return when[name] === null || isRefused || (together !== undefined && isAbsent(together));
  };
  return Object.keys(op.tensors).filter(isAbsent);
}

export const isWritten = ({ access }: TensorContract): boolean => access !== 'read';

/** Bytes that a call moves if each input is read once and each output written once. Inputs in one memory count once, and so do outputs. */
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
