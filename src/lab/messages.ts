// Messages between a command (kernel-process.ts) and its kernel process (child.ts), one JSON object a line. The child writes
// synchronously, so that a message sent before a crash is not lost. Its lines begin with a random token (the child's last argument):
// a card's code can write to the channel, too, but does not know the token.
import type { Dtype } from '../native/device.ts';
import type { DeviceChoice } from '../native/select-device.ts';
import type { Benched } from './bench-op.ts';
import type { TestedSize } from './test-op.ts';

/** One kernel to test or time: the op that a card computes, in one dtype. */
export interface Job {
  readonly op: string;
  readonly dtype: Dtype;
}

/** A request to the kernel process. `list`: the folder's cards; `compile`: compile a card for a GPU, if a compiler is installed. */
export type Request = { readonly folder: string; readonly device: DeviceChoice } & (
  | { readonly ask: 'list' }
  | (Job & { readonly ask: 'compile' })
  | (Job & { readonly ask: 'test'; readonly allSizes?: boolean; readonly once?: boolean })
  | (Job & { readonly ask: 'bench' | 'profile'; readonly batch?: number; readonly isBrief?: boolean })
);

export interface ListedCard {
  readonly op: string;
  /** The .cu file, relative to the card's folder. */
  readonly source: string;
  readonly hash: string;
  /** `takes`: the dtypes that the card supports; `dtypes`: the dtypes of `takes` in which this device can run the card. */
  readonly takes: readonly Dtype[];
  readonly dtypes: readonly Dtype[];
}

/** Tasks of the kernel process other than running kernels, with their time limits in seconds. */
export const limits = { 'importing the card': 10, 'compiling the kernels': 120 } as const;

export type Message =
  /** A task of `limits` begins. It ends with the next message of any kind. */
  | { readonly say: 'begins'; readonly what: keyof typeof limits }
  /** The card is compiled and loaded, which took `ms` milliseconds. */
  | { readonly say: 'loaded'; readonly ms: number }
  /** `kernel` is about to run. All kernels before it have ended, except in a bench. */
  | { readonly say: 'running'; readonly kernel: string }
  /** No kernel runs: all that were started have ended. */
  | { readonly say: 'idle' }
  | ({ readonly say: 'size' } & TestedSize)
  | { readonly say: 'list'; readonly cards: readonly ListedCard[] }
  /** A card compiled for a GPU. `compiler`: its name; undefined if no compiler is installed. */
  | { readonly say: 'compiled'; readonly compiler: string | undefined }
  /** Times of a kernel. `hash` identifies the kernel's version; `on` names the device and its code path. */
  | ({ readonly say: 'bench'; readonly hash: string; readonly on: string } & Benched)
  /** The calls that the profiler measured, as lines of text. */
  | { readonly say: 'profile'; readonly on: string; readonly calls: readonly string[] }
  /** The request failed. `isCompile`: a kernel does not compile. `isLost`: the device failed, so the process exits. */
  | { readonly say: 'failed'; readonly message: string; readonly isCompile: boolean; readonly isLost: boolean }
  | { readonly say: 'done' };
