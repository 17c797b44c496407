// What the process that runs kernels is asked, and what it says: lines of JSON. It writes them synchronously, so that what it said
// before a kernel crashed or hung has arrived. Its lines begin with its last argument: a card can write to the channel, too.
import type { Dtype } from '../native/device.ts';
import type { DeviceChoice } from '../native/select-device.ts';
import type { Benched } from './bench-op.ts';
import type { TestedSize } from './test-op.ts';

interface Target {
  readonly folder: string;
  readonly device: DeviceChoice;
}

export type Request =
  /** The ops of the folder's cards. */
  | ({ readonly ask: 'list' } & Target)
  /** Compiles a card for a GPU, if there is a compiler for one. */
  | ({ readonly ask: 'compile'; readonly op: string; readonly dtype: Dtype } & Target)
  /** Tests, times or profiles a card. */
  | ({
      readonly ask: 'test';
      readonly op: string;
      readonly dtype: Dtype;
      readonly allSizes?: boolean;
      readonly once?: boolean;
    } & Target)
  | ({
      readonly ask: 'bench' | 'profile';
      readonly op: string;
      readonly dtype: Dtype;
      readonly batch?: number;
      readonly isBrief?: boolean;
    } & Target);

export interface ListedCard {
  readonly op: string;
  /** Its file, in the card's folder. */
  readonly source: string;
  /** Of its kernels. */
  readonly hash: string;
  /** Those that the card takes; `dtypes`: of these, those that the device has. */
  readonly takes: readonly Dtype[];
  readonly dtypes: readonly Dtype[];
}

/** What a process for kernels does besides running them, and how many seconds it may take. */
export const limits = { 'importing the card': 10, 'compiling the kernels': 120 } as const;

export type Message =
  /** It begins with one of these; any other message is its end. */
  | { readonly say: 'begins'; readonly what: keyof typeof limits }
  /** Milliseconds that compiling and loading took. */
  | { readonly say: 'loaded'; readonly ms: number }
  /** A kernel is about to run; all before it have ended. */
  | { readonly say: 'running'; readonly kernel: string }
  /** All have ended. */
  | { readonly say: 'idle' }
  | ({ readonly say: 'size' } & TestedSize)
  | { readonly say: 'list'; readonly cards: readonly ListedCard[] }
  /** By which compiler; undefined: there is none. */
  | { readonly say: 'compiled'; readonly compiler: string | undefined }
  /** `hash`: of the kernel; `on`: the device and its code path. */
  | ({ readonly say: 'bench'; readonly hash: string; readonly on: string } & Benched)
  /** The calls that a profiler measured, a line each. */
  | { readonly say: 'profile'; readonly on: string; readonly calls: readonly string[] }
  /** The request failed; `isLost`: with it the device, so that the process ends. */
  | { readonly say: 'failed'; readonly message: string; readonly isLost: boolean }
  | { readonly say: 'done' };
