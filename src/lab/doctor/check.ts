// The result type of a check of `doctor`. The other files of this folder run the checks; the command prints the results.

/** One line of the report that `doctor` prints. */
export interface Check {
  /** "node", "gpu", "kernels of cuda bf16" */
  readonly name: string;
  /** `warning`: a fault that does not prevent training, such as a missing compiler although the libraries are built. */
  readonly state: 'ok' | 'warning' | 'failed';
  readonly found: string;
  /** Advice on how to fix the fault: a command or an explanation. */
  readonly fix?: string;
}

export const ok = (name: string, found: string): Check => ({ name, state: 'ok', found });
export const warning = (name: string, found: string, fix: string): Check => ({ name, state: 'warning', found, fix });
export const failed = (name: string, found: string, fix: string): Check => ({ name, state: 'failed', found, fix });
