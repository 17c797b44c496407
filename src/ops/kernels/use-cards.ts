// Runs a user's kernels in place of a device's ops. A card (kernel-card.ts) says which op its kernels compute. If a card computes a plain
// op, such as gelu_forward, each fused op that includes the plain op runs as its plain ops, unless a card computes the fused op.
import { join } from 'node:path';
import { checkArguments, checkGiven, checkValue } from '../../base/checks/given.ts';
import { Gpt2Error } from '../../base/errors.ts';
import type { Device, DeviceBuffer } from '../../native/device.ts';
import { Tensor } from '../../native/tensor.ts';
import { absentIn, type NativeArguments, type OpVariant } from '../contract.ts';
import { enqueue } from '../enqueue.ts';
import { type PlainOp, plainOps } from '../plain-ops.ts';
import { type OpArguments, replaceOp } from '../replacements.ts';
import { variantNamed } from '../variants.ts';
import { compileKernels, type KernelSource } from './compile.ts';
import { type CardLaunch, checkedLaunches, type LoadedCard } from './kernel-card.ts';

/** Whether a call of a fused op cannot be split, because no plain op computes a softcap's backward, or dbias without dweight. */
const isWhole = ({ softcap, dweight, dbias }: OpArguments): boolean =>
  Boolean(softcap) || (Boolean(dbias) && dweight === null);

/** A card's compiled kernels on a device, and their scratch memory. */
type Launcher = Awaited<ReturnType<typeof launcherOf>>;

/** The cards in use on each device, by the op variant that they compute. */
const inUse = new WeakMap<Device, Map<OpVariant, Launcher>>();

/** The name of a card's scratch memory in memory plans and messages. */
export const scratchName = ({ op }: Pick<LoadedCard, 'op'>): string => `scratch of ${op}`;

/** Allocates the scratch memory of a device's cards before their kernels are launched. @param bytes bytes by `scratchName` */
export function reserveScratch(device: Device, bytes: ReadonlyMap<string, number>): void {
  for (const { card, scratch } of inUse.get(device)?.values() ?? []) scratch(bytes.get(scratchName(card)) ?? 0);
}

/** Options of `useCards`. */
export interface CardOptions {
  /** Whether to check every memory access of the kernels on a CPU. Default false, because checked kernels are many times slower. */
  readonly checks?: boolean | undefined;
  /** Called before each launch, with the kernel's name. */
  readonly onLaunch?: ((kernel: string) => void) | undefined;
}

/**
 * Compiles the cards' kernels for a device, and makes the device's ops launch them. Scratch memory is allocated when an op first needs
 * it. Kernels and scratch are freed when the device is closed, or when another card replaces this card.
 * @throws Gpt2Error if a card does not support the device's dtype, or two cards compute one op; otherwise as `compileKernels`
 * @example await useCards(gpu, await loadCards('kernels/course/layernorm/1-naive'));
 */
export async function useCards(device: Device, cards: readonly LoadedCard[], options: CardOptions = {}): Promise<void> {
  checkArguments({ device });
  checkGiven(options, {}, { checks: 'switch', onLaunch: 'function' });
  const { checks = false, onLaunch = () => {} } = options;
  checkValue('cards', { member: Symbol.iterator, what: 'what loadCards() returns' }, cards);
  const computed = new Set<OpVariant>();
  for (const card of cards) {
    const variant = variantNamed(card.op);
    if (computed.has(variant)) throw new Gpt2Error(`two kernel cards compute ${card.op}: give one`);
    computed.add(variant);
    const launcher = await launcherOf(device, card, { checks, onLaunch });
    const used = inUse.get(device) ?? new Map<OpVariant, Launcher>();
    inUse.set(device, used);
    used.get(variant)?.close();
    used.set(variant, launcher);
    replaceOp(device, variant, launcher.launch);
  }
  splitFused(device, computed);
}

/** Makes fused ops run as plain ops. With `computed`, the cards' ops: only fused ops not in it that have a plain op in it. */
export function splitFused(device: Device, computed?: ReadonlySet<OpVariant>): void {
  for (const [fused, parts] of plainOps) {
    if (computed && (computed.has(fused) || !parts.some(([plain]) => computed.has(plain)))) continue;
    replaceOp(device, fused, (args, native) => {
      if (isWhole(args)) {
        device.call(fused.op.name as 'adamw', native as never);
        return;
      }
      const calls = parts.map((part) => ({ op: part[0].op, plain: plainArguments(part, args) }));
      // Leaves out plain ops whose first output is null, because these ops would compute nothing.
      const asked = calls.filter(({ plain }) => Object.values(plain)[0] !== null);
      for (const { op, plain } of asked) {
        // If cross-entropy is the last op, its dlogits need not be written, because only later ops would read them.
        const isUnread = 'dlogits' in plain && op === asked.at(-1)!.op;
        enqueue(device, op, isUnread ? { ...plain, dlogits: null } : plain);
      }
    });
  }
}

/** The arguments of a plain op, taken from the arguments of the fused op. */
function plainArguments([variant, renamed]: PlainOp, args: OpArguments): OpArguments {
  const { op, when } = variant;
  const absent = absentIn(variant);
  const names = [...Object.keys(op.tensors), ...op.sizes, ...op.scalars, ...op.flags];
  const entries = names.map((name) => {
    if (absent.includes(name)) return [name, null];
    const condition = when[name];
    const value = typeof condition === 'number' ? condition : args[renamed[name] ?? name]!;
    const isVector = value instanceof Tensor && op.tensors[name]!.shape.length === 1;
    return [name, isVector ? value.view([value.count]) : value] as const;
  });
  return Object.fromEntries(entries);
}

const typeName = { fp32: 'float', bf16: '__nv_bfloat16', int32: 'int' };

export const elementMacros = ({ elementType, gradientType }: Pick<Device, 'elementType' | 'gradientType'>) => ({
  ...{ ELEMENT: typeName[elementType], GRADIENT: typeName[gradientType] },
});

export const cardSource = (
  { folder, source, instantiate }: LoadedCard,
  device: Pick<Device, 'elementType' | 'gradientType'>,
): KernelSource => ({ file: join(folder, source), instantiate, defines: elementMacros(device) });

const sizesOf = ({ op }: LoadedCard, native: NativeArguments): Readonly<Record<string, number>> =>
  Object.fromEntries(variantNamed(op).op.sizes.map((name) => [name, native[name] as number]));

export const cardScratchBytes = (card: LoadedCard, native: NativeArguments): number =>
  card.scratch?.(sizesOf(card, native)) ?? 0;

/** The launches that a card specifies for a call of its op. @param scratch returns memory of at least `bytes` bytes; `bytes` may be 0 */
export function launchesOf(
  card: LoadedCard,
  args: OpArguments,
  native: NativeArguments,
  scratch: (bytes: number) => DeviceBuffer | null,
): readonly CardLaunch[] {
  const memory = scratch(cardScratchBytes(card, native));
  return checkedLaunches(card, card.launches({ ...args, ...sizesOf(card, native), scratch: memory }));
}

async function launcherOf(device: Device, card: LoadedCard, { checks, onLaunch }: Required<CardOptions>) {
  const { op, folder, dtypes = ['fp32'] } = card;
  // On a CPU in dtype bf16, tensors are fp32, so a card for fp32 fits. In dtype fp8, an op without FP8 tensors works in the device's
  // element type, so a card for this type fits.
  const dtype = device.dtype === 'bf16' ? device.elementType : device.dtype;
  const isTaken = dtypes.includes(dtype) || (dtype === 'fp8' && dtypes.includes(device.elementType));
  if (!isTaken) {
    throw new Gpt2Error(`the kernel card of ${op} in ${folder} takes ${dtypes.join(', ')}, not ${dtype}`);
  }
  const kernels = await compileKernels(device, { ...cardSource(card, device), checks });
  const memories: DeviceBuffer[] = [];
  /** Scratch memory of at least `bytes` bytes; null as long as no call has needed any. */
  const scratch = (bytes: number): DeviceBuffer | null => {
    // Earlier, smaller memory stays allocated, because recorded graphs may contain its address.
    if (bytes > (memories.at(-1)?.bytes ?? 0)) memories.push(device.allocate(bytes, scratchName(card)));
    return memories.at(-1) ?? null;
  };
  const launch = (args: OpArguments, native: NativeArguments): void => {
    for (const { kernel, args: kernelArgs, ...shape } of launchesOf(card, args, native, scratch)) {
      const found = kernels[kernel]!;
      onLaunch(found.name);
      found.launch(shape, ...kernelArgs);
    }
  };
  const close = (): void => {
    kernels[Symbol.dispose]();
    for (const memory of memories) memory.close();
  };
  return { card, launch, scratch, close };
}
