// The result of one check of the doctor; the other files here make the checks, and the command prints them.

/** One line of the report. */
export interface Check {
  /** "node", "gpu", "kernels of cuda bf16" */
  readonly name: string;
  /** Warning: something that is not needed yet, such as a compiler after the libraries are built. */
  readonly state: 'ok' | 'warning' | 'failed';
  readonly found: string;
  /** Advice: a command or an explanation. */
  readonly fix?: string;
}

export const ok = (name: string, found: string): Check => ({ name, state: 'ok', found });
export const warning = (name: string, found: string, fix: string): Check => ({ name, state: 'warning', found, fix });
export const failed = (name: string, found: string, fix: string): Check => ({ name, state: 'failed', found, fix });
