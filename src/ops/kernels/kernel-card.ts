// A kernel card says how a user's kernels compute an op: the kernels' source, and the launches for the op's arguments. Arguments have the
// names of the op's contract in cuda/gpt2.h.
import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { checkArguments } from '../../base/checks/given.ts';
import { didYouMean } from '../../base/checks/nearest.ts';
import { Gpt2Error } from '../../base/errors.ts';
import type { DeviceBuffer, Dtype } from '../../native/device.ts';
import type { Tensor } from '../../native/tensor.ts';
import { type ContractOf, type OpName, variantNamed, type WhenOf } from '../variants.ts';
import { importCard } from './import-card.ts';
import type { LaunchShape } from './kernels.ts';
import type { KernelArgument } from './signature.ts';

type TensorsOf<Op extends OpName> = ContractOf<Op>['tensors'];
type NumbersOf<Op extends OpName> = ContractOf<Op>['sizes'][number] | ContractOf<Op>['scalars'][number];
/** The type of a tensor argument, Tensor, null, or Tensor | null, from the op's contract and the variant's conditions. */
type TensorOf<Contract, When, Name> = Name extends keyof When
  ? When[Name] extends 'tensor'
    ? Tensor
    : null
  : Contract extends { isOptional: true }
    ? Tensor | null
    : Tensor;

/** The arguments of an op, by name: its tensors, numbers and flags. */
export type OpArgumentsOf<Op extends OpName> = {
  readonly [Name in keyof TensorsOf<Op>]: TensorOf<TensorsOf<Op>[Name], WhenOf<Op>, Name>;
} & { readonly [Name in NumbersOf<Op>]: number } & { readonly [Name in ContractOf<Op>['flags'][number]]: boolean };

/** One launch of a kernel: its name, grid, block and arguments. */
export interface CardLaunch extends LaunchShape {
  /** The kernel's name in the source, with template arguments as in `instantiate`. */
  readonly kernel: string;
  readonly args: readonly KernelArgument[];
}

export interface KernelCard<Op extends OpName = OpName> {
  /** The op, or the variant of an op, that the kernels compute. The library computes the op's other variants. */
  readonly op: Op;
  /** The .cu file, relative to the card. It may use the macros ELEMENT and GRADIENT, the types of tensors and of matrix gradients. */
  readonly source: string;
  /** The dtypes of a device that the kernels support. Default ['fp32']. */
  readonly dtypes?: readonly Dtype[] | undefined;
  /** Instances of kernel templates to compile: ["scale<ELEMENT, 256>"]. */
  readonly instantiate?: readonly string[] | undefined;
  /** Bytes of scratch memory that the kernels need for the op's sizes. Default 0. */
  scratch?(sizes: { readonly [Name in NumbersOf<Op>]: number }): number;
  /** Returns the launches, in order. The argument `scratch` is memory of at least as many bytes as the function `scratch` returned. */
  launches(args: OpArgumentsOf<Op> & { readonly scratch: DeviceBuffer | null }): readonly CardLaunch[];
}

/** A card that was loaded from `file`. Its `source` is a path relative to `folder`. */
export interface LoadedCard extends Omit<KernelCard, 'scratch' | 'launches'> {
  readonly folder: string;
  readonly file: string;
  scratch?(sizes: Readonly<Record<string, number>>): number;
  launches(args: Readonly<Record<string, unknown>>): readonly CardLaunch[];
}

/**
 * Returns the card unchanged; TypeScript checks it against the op. Use it in the default export of a card.ts.
 * @example
 * const card = defineKernel({
 *   op: 'gelu_forward',
 *   source: 'gelu.cu',
 *   launches: ({ out, in: x, count }) => [
 *     { kernel: 'gelu', grid: Math.ceil(count / 256), block: 256, args: [out, x, count] },
 *   ],
 * });
 */
export const defineKernel = <Op extends OpName>(card: KernelCard<Op>): KernelCard<Op> => card;

/** Checks the names of an object's properties. @throws Gpt2Error for an unknown name, suggesting the nearest known name */
function checkNames(what: string, object: object, known: readonly string[]): void {
  const wrong = Object.keys(object).find((name) => !known.includes(name));
  if (wrong === undefined) return;
  throw new Gpt2Error(`${what} has "${wrong}": ${didYouMean(wrong, known, `it takes ${known.join(', ')}`)}`);
}

/** Checks the value that a card's function `launches` returned. @throws Gpt2Error naming the card's file */
export function checkedLaunches({ op, file }: LoadedCard, returned: unknown): readonly CardLaunch[] {
  if (!Array.isArray(returned)) {
    throw new Gpt2Error(`the function launches of ${op} in ${file} returns ${typeof returned}, not a list of launches`);
  }
  for (const launch of returned) {
    const what = `a launch of ${op} in ${file}`;
    if (!launch) throw new Gpt2Error(`${what} is ${launch}: leave it out of the list`);
    checkNames(what, launch, ['kernel', 'grid', 'block', 'shared', 'args']);
    if (!Array.isArray(launch.args)) throw new Gpt2Error(`${what} has no args, the list of the kernel's arguments`);
  }
  return returned;
}

export const cardFiles: readonly string[] = ['card.ts', 'card.mjs'];

/**
 * Loads the card or list of cards that a file exports by default. For a folder, the file is its card.ts or card.mjs.
 * @throws Gpt2Error if there is no card, or the file cannot be loaded
 * @example await useCards(gpu, await loadCards('kernels/course/gelu/1-naive'));
 */
export async function loadCards(path: string): Promise<readonly LoadedCard[]> {
  checkArguments({ path });
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  const names = isFolder ? cardFiles.map((name) => join(path, name)) : [path];
  const file = names.find((name) => statSync(name, { throwIfNoEntry: false })?.isFile());
  if (file === undefined) {
    throw new Gpt2Error(`there is no kernel card in ${path}: name a folder with a card.ts or card.mjs`);
  }
  if (file.endsWith('.cu')) {
    throw new Gpt2Error(
      `${file} is no kernel card: name a folder with a card, or use kernel test FILE.cu --expect FILE`,
    );
  }
  const exported = (await importCard(file, `the kernel card ${file}`)) as {
    default?: KernelCard | readonly KernelCard[];
  };
  const cards = [exported.default ?? []].flat() as unknown as LoadedCard[];
  if (cards.length === 0) {
    throw new Gpt2Error(`the kernel card ${file} exports nothing: write export default defineKernel({ ... })`);
  }
  for (const card of cards) {
    const { op, launches } = card;
    variantNamed(op);
    checkNames(`the card of ${op} in ${file}`, card, ['op', 'source', 'dtypes', 'instantiate', 'scratch', 'launches']);
    if (typeof launches !== 'function') throw new Gpt2Error(`the card of ${op} in ${file} has no function launches`);
  }
  return cards.map((card) => ({ ...card, file: resolve(file), folder: dirname(resolve(file)) }));
}
