// A kernel card says how kernels of a user compute an op: their source, and their launches for the op's sizes. A launch can use
// everything that the op's contract (cuda/gpt2.h) names.
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
/** null or a tensor, by the contract and the conditions of a variant. */
type TensorOf<Contract, When, Name> = Name extends keyof When
  ? When[Name] extends 'tensor'
    ? Tensor
    : null
  : Contract extends { isOptional: true }
    ? Tensor | null
    : Tensor;

/** The arguments of an op by their names in its contract. */
export type OpArgumentsOf<Op extends OpName> = {
  readonly [Name in keyof TensorsOf<Op>]: TensorOf<TensorsOf<Op>[Name], WhenOf<Op>, Name>;
} & { readonly [Name in NumbersOf<Op>]: number } & { readonly [Name in ContractOf<Op>['flags'][number]]: boolean };

/** A launch of one kernel. */
export interface CardLaunch extends LaunchShape {
  /** The kernel's name in the source, with template arguments as in `instantiate`. */
  readonly kernel: string;
  readonly args: readonly KernelArgument[];
}

export interface KernelCard<Op extends OpName = OpName> {
  /** The op that the kernels compute, or its variant. Other variants run on the library. Export a card for each variant. */
  readonly op: Op;
  /** The .cu file, in the card's folder. The macros ELEMENT and GRADIENT are the types of tensors and of matrix gradients. */
  readonly source: string;
  /** Dtypes of the device that the kernels take. Default ['fp32']. */
  readonly dtypes?: readonly Dtype[] | undefined;
  /** Kernels with template arguments: ["scale<ELEMENT, 256>"]. */
  readonly instantiate?: readonly string[] | undefined;
  /** Bytes of scratch for the op's sizes. Default 0. */
  scratch?(sizes: { readonly [Name in NumbersOf<Op>]: number }): number;
  /** The launches, in order; the memory `scratch` has at least as many bytes as the function `scratch` returned. */
  launches(args: OpArgumentsOf<Op> & { readonly scratch: DeviceBuffer | null }): readonly CardLaunch[];
}

/** A card of any op, with the card's file and the folder of its source. */
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

/** @throws Gpt2Error for an unknown property, with the nearest known one */
function checkNames(what: string, object: object, known: readonly string[]): void {
  const wrong = Object.keys(object).find((name) => !known.includes(name));
  if (wrong === undefined) return;
  throw new Gpt2Error(`${what} has "${wrong}": ${didYouMean(wrong, known, `it takes ${known.join(', ')}`)}`);
}

/** Checks what a card's function returned. @throws Gpt2Error naming the card's file */
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
 * Loads the cards that a file, or a folder's card.ts or card.mjs, exports by default: one or several.
 * @throws Gpt2Error if there is no card, or it cannot be read
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
