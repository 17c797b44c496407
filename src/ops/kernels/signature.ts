// Parses demangled signatures of kernels, and packs a launch's arguments into bytes accordingly.
import { gpt2Error } from '../../base/errors.ts';
import type { Device } from '../../native/device.ts';
import { DeviceBuffer } from '../../native/device.ts';
import type { ElementType } from '../../native/element-types.ts';
import { Tensor } from '../../native/tensor.ts';
import { split } from './brackets.ts';

export interface KernelParameter {
  /** The parameter's type in C: "float const*". */
  readonly type: string;
  /** Offset of the argument in the packed arguments, in bytes. */
  readonly offset: number;
  readonly bytes: number;
}

/**
 * An argument of a launch. A pointer parameter takes a tensor, device memory, or null. A floating-point parameter takes a number. An
 * integer parameter takes a number, a bigint or a boolean.
 */
export type KernelArgument = Tensor | DeviceBuffer | number | bigint | boolean | null;

/** Splits "void scale<float, 256>(float*, int)" into "scale<float, 256>" and ["float*", "int"]; types are undefined without "(". */
export function parseSignature(signature: string): { name: string; types: readonly string[] | undefined } {
  const text = signature.replaceAll('(anonymous namespace)::', '');
  const pieces = split(text, '(');
  const name = split(pieces[0]!, ' ').at(-1)!;
  if (pieces.length === 1) return { name, types: undefined };
  const list = text.slice(pieces[0]!.length + 1, text.lastIndexOf(')')).trim();
  return { name, types: list === '' ? [] : split(list, ',').map((type) => type.trim()) };
}

const bitsOf: Readonly<Record<string, number>> = { bool: 1, char: 8, short: 16, int: 32, long: 64 };
/** The element type of tensors for a pointer to a C type, such as float, float2 or float4. Pointers to other types accept any tensor. */
const elements: Readonly<Record<string, ElementType>> = {
  float: 'fp32',
  double: 'fp64',
  __nv_bfloat16: 'bf16',
  __half: 'fp16',
  int: 'int32',
  'unsigned int': 'int32',
};

/**
 * Packs the arguments of a launch for the driver. `reach` has, for each argument, the bytes that a kernel may access through it.
 * @throws Gpt2Error naming the kernel, the wrong argument and its type in C
 */
export function packArguments(
  device: Device,
  kernel: string,
  parameters: readonly KernelParameter[],
  args: readonly KernelArgument[],
): { packed: Uint8Array; reach: BigInt64Array } {
  if (args.length !== parameters.length) {
    const list = parameters.map(({ type }) => type).join(', ');
    throw gpt2Error`${kernel} takes ${parameters.length} argument${parameters.length === 1 ? '' : 's'} (${list}), not ${args.length}`;
  }
  const last = parameters.at(-1);
  const packed = new Uint8Array(last ? last.offset + last.bytes : 0);
  const view = new DataView(packed.buffer);
  const reach = new BigInt64Array(parameters.length);
  for (const [index, parameter] of parameters.entries()) {
    const refuse = (wanted: string): never => {
      const { type } = parameter;
      throw gpt2Error`${kernel}: argument ${index + 1} (${type}) takes ${wanted}, not ${described(args[index])}`;
    };
    const value = args[index];
    pack(view, device, parameter, value, refuse);
    if (value instanceof Tensor || value instanceof DeviceBuffer) reach[index] = BigInt(value.bytes);
  }
  return { packed, reach };
}

function pack(
  view: DataView,
  device: Device,
  { type, offset, bytes }: KernelParameter,
  value: KernelArgument | undefined,
  refuse: (wanted: string) => never,
): void {
  if (type.endsWith('*')) {
    const pointed = type.slice(0, -1).replace(/ const$/, '');
    const element = elements[pointed] ?? elements[pointed.replace(/[24]$/, '')];
    view.setBigUint64(offset, pointerOf(device, element, value, refuse), true);
    return;
  }
  if (type === 'float' || type === 'double') {
    if (typeof value !== 'number') refuse('a number');
    if (type === 'float') view.setFloat32(offset, value, true);
    else view.setFloat64(offset, value, true);
    return;
  }
  const [, unsigned, word] = /^(unsigned )?(?:signed )?(bool|char|short|int|long)(?: long)?$/.exec(type) ?? [];
  if (word === undefined) refuse('nothing that can be passed: use pointers and plain numbers as parameters');
  const bits = BigInt(bitsOf[word]!);
  const [least, most] =
    unsigned || word === 'bool' ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
  const limits = word === 'bool' ? 'true or false' : `a whole number from ${least} to ${most}`;
  const isWhole = typeof value === 'bigint' || typeof value === 'boolean' || Number.isSafeInteger(value);
  if (!isWhole) refuse(limits);
  const whole = BigInt(value as number | bigint | boolean);
  if (whole < least || whole > most) refuse(limits);
  const low = new Uint8Array(BigInt64Array.of(BigInt.asIntN(64, whole)).buffer, 0, bytes);
  new Uint8Array(view.buffer).set(low, offset);
}

function pointerOf(
  device: Device,
  element: ElementType | undefined,
  value: KernelArgument | undefined,
  refuse: (wanted: string) => never,
): bigint {
  if (value === null) return 0n;
  const wanted = `a tensor${element ? ` of ${element}` : ''}, device memory or null`;
  if (!(value instanceof Tensor || value instanceof DeviceBuffer)) refuse(wanted);
  if (value.device !== device) refuse(`${wanted} on the kernel's device`);
  if (value instanceof Tensor && element !== undefined && value.type !== element) refuse(wanted);
  return value.pointer;
}

function described(value: unknown): string {
  // Avoids "tensor tensor", because `tensorOf` names its tensors "tensor".
  if (value instanceof Tensor) return `the ${value.type} ${value.name === 'tensor' ? '' : 'tensor '}${value.name}`;
  if (value instanceof DeviceBuffer) return `the memory ${value.name}`;
  if (value === null || ['number', 'bigint', 'boolean', 'undefined'].includes(typeof value)) return String(value);
  if (ArrayBuffer.isView(value))
    return `a ${value.constructor.name} of the host: copy it with tensorOf(device, values)`;
  return typeof value === 'string' ? JSON.stringify(value) : `a ${typeof value}`;
}
