// Computes how many blocks of a kernel one multiprocessor (SM) of a GPU holds at once, and which resource limits them.
import { gpt2Error } from '../base/errors.ts';

/** The limits of a multiprocessor (SM), for one compute capability. */
interface Limits {
  readonly warps: number;
  readonly blocks: number;
  /** Bytes of shared memory of an SM. */
  readonly shared: number;
  /** Bytes of shared memory that CUDA reserves for itself in each block. */
  readonly reserved: number;
  /** Shared memory of a block is rounded up to a multiple of this many bytes. */
  readonly sharedUnit: number;
}

const turing = { reserved: 0, sharedUnit: 256 };
const newer = { reserved: 1 << 10, sharedUnit: 128 };
const kib = (count: number) => count << 10;

/**
 * Limits by compute capability. Warps, blocks and shared memory are from the CUDA programming guide, "Compute Capabilities". A block can
 * use the SM's shared memory except `reserved`. `sharedUnit` is from cuda_occupancy.h of CUDA 13.0.
 */
const limits: Readonly<Record<string, Limits>> = {
  '7.5': { warps: 32, blocks: 16, shared: kib(64), ...turing },
  '8.0': { warps: 64, blocks: 32, shared: kib(164), ...newer },
  '8.6': { warps: 48, blocks: 16, shared: kib(100), ...newer },
  '8.7': { warps: 48, blocks: 16, shared: kib(164), ...newer },
  '8.9': { warps: 48, blocks: 24, shared: kib(100), ...newer },
  '9.0': { warps: 64, blocks: 32, shared: kib(228), ...newer },
  '10.0': { warps: 64, blocks: 32, shared: kib(228), ...newer },
  '10.3': { warps: 64, blocks: 32, shared: kib(228), ...newer },
  '12.0': { warps: 48, blocks: 24, shared: kib(100), ...newer },
  '12.1': { warps: 48, blocks: 24, shared: kib(100), ...newer },
};

/** Equal for all GPUs in `limits`: an SM's registers and sub-partitions (each warp runs in one of the four), a block's most threads. */
const [registers, parts, largestBlock] = [65_536, 4, 1024];
/** Registers of a warp are allocated in multiples of 256. */
const registerUnit = 256;

export type Limiter = 'registers' | 'shared memory' | 'threads' | 'blocks';

export type Occupancy = ReturnType<typeof occupancyOf>;

/** The limits of an SM by compute capability, such as "9.0". @throws Gpt2Error if the table lacks the capability */
export function limitsOf(capability: string): Limits {
  const found = limits[capability];
  if (found) return found;
  throw gpt2Error`what fits on a GPU of compute capability ${capability} is not known: name one of ${Object.keys(limits).join(', ')} with --gpu`;
}

const roundUp = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

type BlockNeeds = Readonly<Record<'threads' | 'registers' | 'shared', number>>;

/**
 * Computes the occupancy of an SM by one kernel.
 * @param needs threads of a block, its bytes of shared memory (static and dynamic), registers of a thread
 * @returns blocks: the number that an SM holds at once (0: the launch fails); warps: of these blocks; most: warps that an SM can hold;
 * limiters: the resources that prevent one more block (none if all warps are used) @throws Gpt2Error as `limitsOf`
 */
export function occupancyOf(capability: string, needs: BlockNeeds) {
  const { warps: most, blocks, shared, reserved, sharedUnit } = limitsOf(capability);
  const warps = Math.ceil(needs.threads / 32);
  const ofWarp = roundUp(needs.registers * 32, registerUnit);
  // The driver's rule for a launch: a block's warps, rounded up to a multiple of four, must have enough registers in an SM.
  const fits = ofWarp * roundUp(warps, parts) <= registers;
  const bytes = roundUp(needs.shared + reserved, sharedUnit);
  const allowed: Readonly<Record<Limiter, number>> = {
    registers: fits ? Math.floor((parts * Math.floor(registers / parts / ofWarp)) / warps) : 0,
    'shared memory': bytes > 0 ? Math.floor(shared / bytes) : Number.POSITIVE_INFINITY,
    threads: needs.threads > largestBlock ? 0 : Math.floor(most / warps),
    blocks,
  };
  const held = Math.min(...Object.values(allowed));
  const limiters = (Object.keys(allowed) as Limiter[]).filter((name) => allowed[name] === held);
  return { blocks: held, warps: held * warps, most, limiters: held * warps === most ? [] : limiters };
}
