// Messages between the lab and the process that runs its kernels, one JSON object a line. The process writes synchronously, so
// that a message sent before a crash is not lost. Its lines begin with a token, its last argument, because a card can write to
// the channel, too.
import type { Dtype } from '../native/device.ts';
import type { DeviceChoice } from '../native/select-device.ts';
import type { Benched } from './bench-op.ts';
import type { TestedSize } from './test-op.ts';

/** A card and a dtype. */
export interface Job {
  readonly op: string;
  readonly dtype: Dtype;
}

/** `list`: the ops of the folder's cards; `compile`: for a GPU, if there is a compiler for one. */
export type Request = { readonly folder: string; readonly device: DeviceChoice } & (
  | { readonly ask: 'list' }
  | (Job & { readonly ask: 'compile' })
  | (Job & { readonly ask: 'test'; readonly allSizes?: boolean; readonly once?: boolean })
  | (Job & { readonly ask: 'bench' | 'profile'; readonly batch?: number; readonly isBrief?: boolean })
);

export interface ListedCard {
  readonly op: string;
  /** The source file, in the card's folder. */
  readonly source: string;
  readonly hash: string;
  /** Dtypes that the card takes; `dtypes`: those among them that the device has. */
  readonly takes: readonly Dtype[];
  readonly dtypes: readonly Dtype[];
}

/** The process's tasks besides running kernels, and the most seconds that each may take. */
export const limits = { 'importing the card': 10, 'compiling the kernels': 120 } as const;

export type Message =
  /** A task of `limits` begins; the next message, of any kind, ends it. */
  | { readonly say: 'begins'; readonly what: keyof typeof limits }
  /** Milliseconds that compiling and loading took. */
  | { readonly say: 'loaded'; readonly ms: number }
  /** A kernel is about to run; all earlier ones have ended. */
  | { readonly say: 'running'; readonly kernel: string }
  /** All kernels have ended. */
  | { readonly say: 'idle' }
  | ({ readonly say: 'size' } & TestedSize)
  | { readonly say: 'list'; readonly cards: readonly ListedCard[] }
  /** The compiler's name; undefined: there is none. */
  | { readonly say: 'compiled'; readonly compiler: string | undefined }
  /** `hash`: of the kernel; `on`: the device and its code path. */
  | ({ readonly say: 'bench'; readonly hash: string; readonly on: string } & Benched)
  /** The calls that a profiler measured, one per line. */
  | { readonly say: 'profile'; readonly on: string; readonly calls: readonly string[] }
  /** The request failed; `isCompile`: a kernel does not compile; `isLost`: the device failed, too, so the process ends. */
  | { readonly say: 'failed'; readonly message: string; readonly isCompile: boolean; readonly isLost: boolean }
  | { readonly say: 'done' };
