// The state of `kernel watch` after a save, as plain JSON: the command sends it to the watch page (page/watch.ts), which shows it.

/** A map of a tensor's wrong elements: its columns are the last dimension, its rows all other dimensions. Long vectors are wrapped. */
export interface WrongMap {
  readonly rows: number;
  readonly columns: number;
  /** Size of a mark: the rows and columns of the tensor that it covers. */
  readonly each: readonly [rows: number, columns: number];
  /** A string for each row of marks. `#`: the mark covers a wrong element; `.`: only correct elements; space: no element. */
  readonly marks: readonly string[];
}

export interface WrongTensor {
  readonly sentence: string;
  readonly map: WrongMap | undefined;
  /** The values from which the first wrong element is computed, such as "weight[88] = 1.25". */
  readonly inputs: readonly string[];
}

export interface TimedRow {
  readonly cells: readonly string[];
  /** Milliseconds that set the length of the row's bar: the time of a call with cold caches, or the bound. */
  readonly ms: number;
}

/** The times of a kernel at one of the sizes with which a training step calls its op. */
export interface TimedSize {
  readonly title: string;
  readonly head: readonly string[];
  /** `rows`: the bound, the library's op and this kernel; `earlier`: earlier versions of the kernel, the newest first. */
  readonly rows: readonly TimedRow[];
  readonly earlier: readonly TimedRow[];
}

export type RoundState = 'compiling' | 'testing' | 'timing' | 'right' | 'wrong' | 'notCompiled';

export interface RoundKernel {
  /** Op and dtype: "gelu_forward fp32". */
  readonly name: string;
  readonly state: RoundState | 'waiting';
  /** The result in words, without the kernel's name. */
  readonly sentence: string;
  /** A row of the table for each tested size. */
  readonly tested: readonly (readonly [sizes: string, results: string, error: string])[];
  /** The first wrong tensor. */
  readonly wrong?: WrongTensor;
  /** The compiler's message, or the error of a kernel that crashed or hung. */
  readonly error?: string;
  readonly times: readonly TimedSize[];
}

export interface KernelRound {
  readonly folder: string;
  /** Time of the save: "10:02:33". */
  readonly time: string;
  readonly state: RoundState;
  /** Milliseconds of each stage that has ended. */
  readonly spent: Readonly<Record<'compiling' | 'testing' | 'timing', number>>;
  readonly kernels: readonly RoundKernel[];
  /** The rounds of earlier saves, the newest first. */
  readonly history: readonly (readonly [time: string, result: string, seconds: string])[];
  /** The reason if no kernel could run. */
  readonly error?: string;
}

/** The state in words: "testing gelu_forward fp32". */
export function describeRound({ state, kernels, error }: KernelRound): string {
  const now = kernels.find((kernel) => kernel.state === state);
  if (state === 'right') return 'right; waits for the next save';
  if (state === 'notCompiled') return 'does not compile; waits for the next save';
  if (state === 'wrong') return `${error === undefined ? 'wrong' : 'failed'}; waits for the next save`;
  return `${state}${now ? ` ${now.name}` : ''}`;
}
