// The errors a user of gpt2.ts can meet. A message is one line: what is wrong, where, what to do about it. Everything
// that is not one of these is a defect of ours and is shown with its stack.

/** Something the user, the files or the machine can cause. The command line prints its message and exits with `exitCode`. */
export class Gpt2Error extends Error {
  readonly exitCode: number = 1;
  override readonly name: string = 'Gpt2Error';

  /** Line breaks become spaces and control characters are spelled out: a message may quote a file that nobody has checked. */
  constructor(message: string, options?: ErrorOptions) {
    super(oneLine(message), options);
  }
}

const longestMessage = 1500;

function oneLine(text: string): string {
  const line = text
    .replaceAll(/\s*[\r\n\u2028\u2029]\s*/g, ' ')
    .replaceAll(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line;
}

/** Wrong from the command line (or the options object) alone, before any file is opened. Exit code 2. */
export class UsageError extends Gpt2Error {
  override readonly exitCode = 2;
  override readonly name = 'UsageError';
}

/** Ends the program with a code; what is wrong was already said, by another process. */
export class ToldError extends Gpt2Error {
  override readonly exitCode: number;
  override readonly name = 'ToldError';

  constructor(exitCode: number) {
    super(`ended with ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/** What an AbortSignal ended before it had a result. */
export class InterruptedError extends Gpt2Error {
  override readonly name = 'InterruptedError';
}

/** A tensor whose shape or dtype does not fit the op it is given to; the message names the dimension. */
export class ShapeError extends Gpt2Error {
  override readonly name = 'ShapeError';
}

/** A native function returned a status other than GPT2_OK. */
export class NativeError extends Gpt2Error {
  override readonly name = 'NativeError';
  /** The C function that failed, e.g. "gpt2_matmul_forward". */
  readonly function: string;
  /** The status it returned, e.g. "GPT2_INVALID_ARGUMENT". */
  readonly status: string;

  constructor(functionName: string, status: string, detail: string) {
    super(`${functionName}: ${detail} (${status})`);
    this.function = functionName;
    this.status = status;
  }
}

/** Runs `work` and returns its value, or the Gpt2Error that it throws. */
export function attempt<R>(work: () => R): R | Gpt2Error {
  try {
    return work();
  } catch (error) {
    if (error instanceof Gpt2Error) return error;
    throw error;
  }
}

/** The first names of a list, and how many more there are. */
export const shortList = (names: readonly string[], most = 3): string =>
  names.length > most ? `${names.slice(0, most).join(', ')} and ${names.length - most} more` : names.join(', ');
