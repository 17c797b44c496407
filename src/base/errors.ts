// Errors that a user, a file or the machine can cause. A message is one line: what failed, the value, where, what to do. Any
// other error is a defect of this program and is shown with its stack.
import { asTyped, nameOf, spelled, words } from './wording.ts';

export { onCommandLine, spelled, words } from './wording.ts';

/** The fields of an error. Its message is "where: what; advice (sources)". */
export interface ErrorFields {
  /** The file or object in which the error was found. */
  readonly where?: string | undefined;
  /** Names of the options that the error is about. */
  readonly options?: readonly string[] | undefined;
  /** The values that an option takes ("a whole number from 1"); `value` is the wrong value that it got (0). */
  readonly expectation?: string | undefined;
  readonly value?: unknown;
  readonly advice?: string | undefined;
  /** The origin of the options' values, if they are not from the caller: "from --preset shakespeare-laptop: --batch 8". */
  readonly sources?: string | undefined;
}

/**
 * The base class of errors that a user, a file or the machine causes. The command line prints the message and exits with `exitCode`.
 * @example if (error instanceof Gpt2Error) console.error(error.message);
 */
export class Gpt2Error extends Error {
  readonly exitCode: number = 1;
  override readonly name: string = 'Gpt2Error';
  readonly #what: string;
  #fields: ErrorFields;

  /**
   * In the message, replaces line breaks by spaces and escapes control characters, because a message may quote an unchecked file.
   * Removes the end of Node's messages, such as ", open 'PATH'", if the message has already named the path.
   */
  constructor(what: string, { cause, ...fields }: ErrorOptions & ErrorFields = {}) {
    super(messageOf(what, fields), cause === undefined ? undefined : { cause });
    this.#what = what;
    this.#fields = fields;
  }

  get fields(): ErrorFields {
    return this.#fields;
  }

  /** Adds fields to this error and its message. */
  with(more: ErrorFields): this {
    this.#fields = { ...this.#fields, ...more };
    const { message, stack } = this;
    this.message = messageOf(this.#what, this.#fields);
    // The text of the stack contains the old message.
    this.stack = stack?.replace(message, () => this.message);
    return this;
  }
}

function messageOf(what: string, { where, advice, sources }: ErrorFields): string {
  const place = where === undefined ? '' : `${where}: `;
  const fix = advice === undefined ? '' : `; ${advice}`;
  return oneLine(namedOnce(asTyped(`${place}${what}${fix}${sources === undefined ? '' : ` (${sources})`}`)));
}

const namedOnce = (text: string): string =>
  text.replace(/, [a-z]+ '([^']+)'/g, (all, path: string, start: number) =>
    text.slice(0, start).includes(path) ? '' : all,
  );

const longestMessage = 1500;

function oneLine(text: string): string {
  const line = text
    .replaceAll(/\s*[\r\n\u2028\u2029]\s*/g, ' ')
    .replaceAll(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line;
}

/**
 * Wrong arguments, wrong options, or a call at the wrong time. Exit code 2.
 * @example if (error instanceof UsageError) process.exitCode = error.exitCode;
 */
export class UsageError extends Gpt2Error {
  override readonly exitCode = 2;
  override readonly name = 'UsageError';

  /** Makes the error "batch takes a whole number from 1, not 0". @param option name or flag @param value a text is shown in quotes */
  static takes(option: string, expectation: string, value: unknown): UsageError {
    const name = option.startsWith('--') ? nameOf(option) : option;
    const fields = { options: [name], expectation, value };
    return new UsageError(`${spelled(option)} takes ${expectation}, not ${shown(value)}`, fields);
  }
}

/**
 * Template tag that makes an error. Flags in the text become option names, as `words` describes. An Error among the values is replaced
 * by its message in the text, and becomes the cause of the new error.
 * @example throw gpt2Error`${path} cannot be read: ${cause}; give another --model`;
 */
export function gpt2Error(texts: TemplateStringsArray, ...values: readonly unknown[]): Gpt2Error {
  const cause = values.find((value) => value instanceof Error);
  const quoted = values.map((value) => (value instanceof Error ? value.message : value));
  return new Gpt2Error(words(texts, ...quoted), { cause });
}

/** Template tag that makes a usage error. The error's field `options` lists the options whose flags the message names. */
export function usageError(texts: TemplateStringsArray, ...values: readonly unknown[]): UsageError {
  const flags = texts.join(' ').match(/--[a-z][\w-]*/g);
  return new UsageError(words(texts, ...values), { options: flags?.map(nameOf) });
}

/**
 * A file of kernels does not compile. The message is the compiler's: for each error its file and line number, the source line,
 * and a caret under the column.
 * @example if (error instanceof CompileError) console.error(error.message);
 */
export class CompileError extends Gpt2Error {
  override readonly name = 'CompileError';

  constructor(message: string) {
    super(message);
    // Keeps the line breaks that the base class replaces, so that the compiler's caret stays below its column.
    this.message = message;
  }
}

/** Ends the program with the exit code of another process, which has already printed its error. */
export class ExitError extends Gpt2Error {
  override readonly exitCode: number;
  override readonly name = 'ExitError';

  constructor(exitCode: number) {
    super(`ended with ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/**
 * An AbortSignal ended the work before it had a result.
 * @example if (error instanceof InterruptedError) console.log('stopped');
 */
export class InterruptedError extends Gpt2Error {
  override readonly name = 'InterruptedError';
}

/**
 * A tensor's shape or dtype does not fit the op; the message names the dimension.
 * @example if (error instanceof ShapeError) console.error(error.message); // "matmul_forward: weight [O,C] has C = 32, ..."
 */
export class ShapeError extends Gpt2Error {
  override readonly name = 'ShapeError';
}

/**
 * A native function returned a status other than GPT2_OK.
 * @example if (error instanceof NativeError && error.status === 'GPT2_DEVICE_ERROR') console.error(error.function);
 */
export class NativeError extends Gpt2Error {
  override readonly name = 'NativeError';
  /** The C function that failed, e.g. "gpt2_matmul_forward". */
  readonly function: string;
  /** The status that the library's function returned, such as "GPT2_INVALID_ARGUMENT". */
  readonly status: string;
  /** The library's description of the failure; a report of the emulator has several lines. */
  readonly detail: string;
  /** The other rank that caused the failure: 2 if `detail` begins with "rank 2 is gone"; undefined if no other rank did. */
  readonly failedRank: number | undefined;

  constructor(functionName: string, status: string, detail: string, failedRank?: number) {
    super(detail, { where: functionName });
    this.function = functionName;
    this.status = status;
    this.detail = detail;
    this.failedRank = failedRank;
  }
}

/** Returns a caught error if it is a Gpt2Error; otherwise throws the error again. */
export function expected(error: unknown): Gpt2Error {
  if (error instanceof Gpt2Error) return error;
  throw error;
}

/** Runs `work`. Returns its value, or the Gpt2Error that `work` throws; other errors are thrown again. */
export function attempt<R>(work: () => R): R | Gpt2Error {
  try {
    return work();
  } catch (error) {
    return expected(error);
  }
}

/** The value of `work`, or `otherwise` if `work` throws. For files that may be missing, unreadable or damaged. */
export function orElse<R, O>(otherwise: O, work: () => R): R | O {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

/**
 * Runs `work`, and wraps any error that it throws in a Gpt2Error.
 * @throws Gpt2Error with the message "WHAT: the error's message; ADVICE" and the error as cause
 */
export function explained<R>(what: string, advice: string | undefined, work: () => R): R {
  try {
    return work();
  } catch (cause) {
    throw new Gpt2Error(`${what}: ${(cause as Error).message}`, { cause, advice });
  }
}

/** The first `most` names of a list, and the number of the remaining names: "a, b, c and 2 more". */
export const shortList = (names: readonly string[], most = 3): string =>
  names.length > most ? `${names.slice(0, most).join(', ')} and ${names.length - most} more` : names.join(', ');

export const isClass = (value: unknown): boolean => typeof value === 'function' && /^class\b/.test(String(value));

/** A wrong value in one line, texts in quotes. @param depth number of enclosing arrays, limited because an array may contain itself */
export function shown(value: unknown, depth = 0): string {
  if (typeof value === 'function') return isClass(value) ? `the class ${value.name}` : 'a function';
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value))
    return depth > 2 ? 'an array' : `[${value.map((each) => shown(each, depth + 1)).join(',')}]`;
  if (value instanceof Promise) return 'a Promise: await it';
  if (typeof value !== 'object' || value === null) return String(value);
  const { name = 'Object' } = Object.getPrototypeOf(value)?.constructor ?? {};
  return name === 'Object' ? 'an object' : `an object of ${name}`;
}

/** Escapes and shortens a name that was read from a file, for a one-line message. */
export const quote = (name: string): string => {
  const plain = /^[\w.-]{1,80}$/.test(name);
  return plain ? name : `${JSON.stringify(name.slice(0, 80))}${name.length > 80 ? '…' : ''}`;
};
