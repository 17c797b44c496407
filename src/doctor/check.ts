// What the doctor says of one thing it looked at. The looking is in the files beside this; printing is the command's.

/** One line of the report. */
export interface Check {
  /** "node", "gpu", "kernels of cuda bf16" */
  readonly name: string;
  /** A warning is of something that is not needed yet: a compiler where the libraries are built. */
  readonly state: 'ok' | 'warning' | 'failed';
  /** What was found. */
  readonly found: string;
  /** The line that mends it. */
  readonly mend?: string;
}

export const ok = (name: string, found: string): Check => ({ name, state: 'ok', found });
export const warning = (name: string, found: string, mend: string): Check => ({ name, state: 'warning', found, mend });
export const failed = (name: string, found: string, mend: string): Check => ({ name, state: 'failed', found, mend });

/** "12.3 GiB" */
export const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
