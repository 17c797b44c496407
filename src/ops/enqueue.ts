// Checks the arguments of an op against its contract and calls the library. Sizes come from the tensors' shapes; an error names
// the tensor, the dimension and both sizes.
import { ShapeError } from '../base/errors.ts';
import { type Bindings, GPT2_DTYPE } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import { elementCount } from '../native/element-types.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  holds as conditionHolds,
  type Dimension,
  isWritten,
  type NativeArguments,
  type OpContract,
  parseDimension,
  sizeOf,
  type TensorContract,
  typeOn,
  type Where,
} from './contract.ts';
import type { OpArguments } from './replacements.ts';
import { replacementOf } from './replacements.ts';

/**
 * Enqueues an op.
 * @throws ShapeError for a tensor on another device, of a wrong type or shape, or that overlaps another; NativeError if the
 * library fails
 */
export function enqueue(device: Device, op: OpContract, args: OpArguments): void {
  const native = nativeArguments(device, op, args);
  const replacement = replacementOf(device, op, args);
  if (replacement) replacement(args, native);
  else device.call(op.name as keyof Bindings & 'adamw', native as never);
}

/** The arguments of the native function. @throws ShapeError as `enqueue` */
export function nativeArguments(device: Device, op: OpContract, args: OpArguments): NativeArguments {
  const tensors = Object.entries(op.tensors).flatMap(([name, contract]) => {
    const tensor = args[name] as Tensor | null;
    return tensor === null && contract.isOptional ? [] : [{ name, contract, tensor: tensor as Tensor }];
  });
  const native: Record<string, number | bigint | null> = {};
  for (const name of Object.keys(op.tensors)) native[name] = null;
  for (const { name, contract, tensor } of tensors) {
    checkType(device, op, name, contract, tensor);
    native[name] = tensor.pointer;
    if (typeOn(device, contract) === undefined) {
      native[contract.type] = tensor.type === 'bf16' ? GPT2_DTYPE.GPT2_BF16 : GPT2_DTYPE.GPT2_FP32;
    }
  }
  for (const name of op.scalars) native[name] = args[name] as number;
  for (const name of op.flags) native[name] = args[name] ? 1 : 0;
  if (op.hasRanks) native.communicator = (args.communicator ?? null) as bigint | null;
  for (const [name, { together, where }] of Object.entries(op.tensors)) {
    if (where) checkWhere(op, name, where, native);
    if (together !== undefined && (native[name] === null) !== (native[together] === null)) {
      throw refused(op, `expected both ${name} and ${together}, or neither`);
    }
  }
  Object.assign(native, sizesOf(op, tensors, args));
  for (const { text, holds } of op.relations) {
    if (!holds(native)) throw refused(op, `expected ${text}${valuesIn(text, native)}`);
  }
  checkOverlaps(op, tensors);
  return native;
}

/** Bytes of workspace that a call with these arguments needs. */
export function workspaceOf(device: Device, op: OpContract, args: OpArguments): number {
  const needs = op.workspace?.(nativeArguments(device, op, args));
  return needs ? scratch(device, needs.name, needs.sizes) : 0;
}

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

interface PassedTensor {
  readonly name: string;
  readonly contract: TensorContract;
  readonly tensor: Tensor;
}

export const refused = ({ symbol }: OpContract, text: string): ShapeError =>
  new ShapeError(`${symbol.replace(/^gpt2_/, '')}: ${text}`);

/** A tensor is null unless its condition holds. */
function checkWhere(op: OpContract, name: string, where: Where, native: NativeArguments): void {
  const isNull = native[name] === null;
  const { argument, operator, value, orNull } = where;
  if (conditionHolds(where, native) ? orNull || !isNull : isNull) return;
  const expected = `${name} ${orNull ? 'only' : 'exactly'} where ${argument} ${operator} ${value}`;
  throw refused(op, `expected ${expected}${valuesIn(argument, native)}`);
}

/** The numbers that a condition names: ", got N = 3". */
function valuesIn(text: string, values: NativeArguments): string {
  const numbers = [...new Set(text.match(/[A-Za-z]\w*/g))].filter((name) => typeof values[name] === 'number');
  return numbers.length === 0 ? '' : `, got ${numbers.map((name) => `${name} = ${values[name]}`).join(', ')}`;
}

function checkType(device: Device, op: OpContract, name: string, contract: TensorContract, tensor: Tensor): void {
  if (tensor.device !== device) throw refused(op, `${name} is on another device than the op`);
  const type = typeOn(device, contract);
  if (type === undefined ? tensor.type === 'int32' : tensor.type !== type) {
    throw refused(op, `${name} must be ${type ?? 'fp32 or bf16'}, but ${tensor.name} is ${tensor.type}`);
  }
}

const parsed = new Map<string, Dimension>();

function dimensionOf(text: string): Dimension {
  const known = parsed.get(text) ?? parseDimension(text);
  parsed.set(text, known);
  return known;
}

/** A tensor's sizes for a contract of fewer dimensions: extra leading dimensions are multiplied into the first. */
function folded(op: OpContract, { name, contract, tensor }: PassedTensor): number[] {
  const { shape } = contract;
  const extra = tensor.shape.length - shape.length;
  if (extra < 0) throw refused(op, `${name} must be [${shape}], but ${tensor.name} is [${tensor.shape}]`);
  const first = elementCount(tensor.shape.slice(0, extra + 1));
  return [first, ...tensor.shape.slice(extra + 1)];
}

/** The value of each size: from a tensor with that dimension, else one with a dimension such as 3C or S+1, else an argument. */
function sizesOf(op: OpContract, tensors: readonly PassedTensor[], args: OpArguments): Record<string, number> {
  const all = tensors.flatMap((entry) => {
    const actual = folded(op, entry);
    return entry.contract.shape.map((text, index) => ({
      ...{ name: entry.name, shape: entry.contract.shape, isOutput: isWritten(entry.contract) },
      ...{ text, actual: actual[index]!, dimension: dimensionOf(text) },
    }));
  });
  const sizes: Record<string, number> = {};
  const origin: Record<string, string> = {};
  const solvable = all.filter(({ dimension: { divisor, atLeast } }) => divisor === undefined && !atLeast);
  // Inputs before outputs, so that an error names the output that does not fit the inputs.
  const inOrder = [...solvable].sort((a, b) => rank(a) - rank(b));
  for (const { name, actual, dimension } of inOrder) {
    if (dimension.name === undefined || sizes[dimension.name] !== undefined) continue;
    sizes[dimension.name] = (actual - dimension.plus) / dimension.factor;
    origin[dimension.name] = name;
  }
  for (const name of op.sizes) sizes[name] ??= args[name] as number;
  for (const { name, shape, text, actual, dimension } of all) {
    const wanted = sizeOf(dimension, sizes);
    if (wanted === undefined || (dimension.atLeast ? actual >= wanted : actual === wanted)) continue;
    const letter = dimension.name;
    const source = letter !== undefined && origin[letter] !== undefined ? `${origin[letter]} has ` : '';
    const known = letter === undefined ? `must have ${wanted}` : `${source}${letter} = ${sizes[letter]}`;
    const has = dimension.atLeast ? `only ${actual} rows` : `${text} = ${actual}`;
    throw refused(op, `${name} [${shape}] has ${has}, but ${known}`);
  }
  return Object.fromEntries(op.sizes.map((name) => [name, sizes[name]!]));
}

const rank = ({ text, dimension, isOutput }: { text: string; dimension: Dimension; isOutput: boolean }): number =>
  (text === dimension.name ? 0 : 2) + (isOutput ? 1 : 0);

/** An output shares memory only with the tensors that the contract names. */
function checkOverlaps(op: OpContract, tensors: readonly PassedTensor[]): void {
  const ranges = tensors.map(({ name, contract, tensor }) => {
    const begin = tensor.pointer;
    return { name, contract, begin, end: begin + BigInt(tensor.bytes) };
  });
  for (const output of ranges) {
    if (!isWritten(output.contract)) continue;
    for (const other of ranges) {
      if (other === output || other.begin >= output.end || output.begin >= other.end) continue;
      if (output.contract.mayBe?.includes(other.name) || other.contract.mayBe?.includes(output.name)) continue;
      throw refused(op, `${output.name} and ${other.name} share memory`);
    }
  }
}
