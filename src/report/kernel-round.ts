// The state of a folder's kernels after a save, which `kernel watch` sends and the watch page shows (page/watch.ts). Plain JSON.

/** The wrong elements of a tensor: rows are its leading dimensions together, columns the last one; a long vector is wrapped. */
export interface WrongMap {
  readonly rows: number;
  readonly columns: number;
  /** The number of rows and columns that one mark stands for. */
  readonly each: readonly [rows: number, columns: number];
  /** One character per mark: # is wrong, a space has no element. */
  readonly marks: readonly string[];
}

export interface WrongTensor {
  readonly sentence: string;
  readonly map: WrongMap | undefined;
  /** The inputs of the first wrong element, such as "weight[88] = 1.25". */
  readonly inputs: readonly string[];
}

export interface TimedRow {
  readonly cells: readonly string[];
  /** The length of the row's bar. */
  readonly ms: number;
}

/** A kernel's times at one of its sizes in a training step. */
export interface TimedSize {
  readonly title: string;
  readonly head: readonly string[];
  /** The bound, the library's op and this kernel; then its earlier versions, the newest first. */
  readonly rows: readonly TimedRow[];
  readonly earlier: readonly TimedRow[];
}

export type RoundState = 'compiling' | 'testing' | 'timing' | 'right' | 'wrong' | 'notCompiled';

export interface RoundKernel {
  /** "gelu_forward fp32" */
  readonly name: string;
  readonly state: RoundState | 'waiting';
  /** The finding, without the kernel's name. */
  readonly sentence: string;
  /** A row for each size that was tested. */
  readonly tested: readonly (readonly [sizes: string, results: string, error: string])[];
  /** The first tensor that is wrong. */
  readonly wrong?: WrongTensor;
  /** The message of the compiler or of a failed kernel. */
  readonly error?: string;
  readonly times: readonly TimedSize[];
}

export interface KernelRound {
  readonly folder: string;
  /** "10:02:33" */
  readonly time: string;
  readonly state: RoundState;
  /** Milliseconds of the stages that have ended. */
  readonly spent: Readonly<Record<'compiling' | 'testing' | 'timing', number>>;
  readonly kernels: readonly RoundKernel[];
  /** The rounds before this one, the newest first. */
  readonly history: readonly (readonly [time: string, result: string, seconds: string])[];
  /** The reason why no kernel could run. */
  readonly error?: string;
}

/** "testing gelu_forward fp32" */
export function describeRound({ state, kernels, error }: KernelRound): string {
  const now = kernels.find((kernel) => kernel.state === state);
  if (state === 'right') return 'right; waits for the next save';
  if (state === 'notCompiled') return 'does not compile; waits for the next save';
  if (state === 'wrong') return `${error === undefined ? 'wrong' : 'failed'}; waits for the next save`;
  return `${state}${now ? ` ${now.name}` : ''}`;
}
