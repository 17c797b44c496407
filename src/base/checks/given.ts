// Checks the types and ranges of arguments and options of the public API, which does not accept the text "8" as a number. Also reads
// numbers from texts of files, of environment variables and of the command line, more strictly than JavaScript's Number().
import { UsageError, usageError } from '../errors.ts';
import { didYouMean, type Spellings, unknownOption } from './nearest.ts';

/** The type of an option: text, several texts, switch (true or false), switch or the word `or`, number, or one of a list of words. */
export type ValueType =
  | 'text'
  | 'texts'
  | 'switch'
  | { readonly switch: true; readonly or: string }
  | NumberType
  | readonly string[];

const isText = (value: unknown) => typeof value === 'string' && value !== '';
/** Whether a value is an object. A Promise is rejected: the caller forgot to await the argument. */
const isObject = (value: unknown) => Object(value) === value && !(value instanceof Promise);

/** Whether a value is a plain object, so that its properties can be options; arrays, Maps and other class instances are not. */
export function isPlain(value: unknown): boolean {
  const prototype = isObject(value) && typeof value === 'object' ? Object.getPrototypeOf(value) : undefined;
  return prototype === null || prototype === Object.prototype;
}

/** Kinds of values without a range: for each, its description in messages and its test. */
const plainKinds = {
  switch: ['true or false', (value) => typeof value === 'boolean'],
  text: ['a text', isText],
  'text or ""': ['a text', (value) => typeof value === 'string'],
  texts: ['texts', (value) => Array.isArray(value) && value.every((text) => typeof text === 'string')],
  'text or object': ['a text or an object', (value) => isText(value) || isObject(value)],
  function: ['a function', (value) => typeof value === 'function'],
  'object or function': ['an object or a function', isObject],
  object: ['an object', (value) => isObject(value) && typeof value === 'object'],
  options: ['an object', isPlain],
} as const satisfies Readonly<Record<string, readonly [name: string, has: (value: unknown) => boolean]>>;

/** The kind of value that an API option takes. Functions that receive an 'object' check its content themselves. */
export type Kind = ValueType | ObjectKind | keyof typeof plainKinds;

/** An object of the API: recognized by the presence of property `member`, and described in messages by `what`. */
interface ObjectKind {
  readonly member: PropertyKey;
  readonly what: string;
}

type OptionalKey<T> = { [K in keyof T]-?: object extends Pick<T, K> ? K : never }[keyof T];
type Kinds<Name extends PropertyKey> = Readonly<Record<Name, Kind>>;

/**
 * Checks the names and values of an object of options.
 * @param required the kind of each option without a default
 * @param optional the kind of each option with a default
 * @param names `spellings`: more spellings to suggest; `help`: advice if no spelling is near, default the list of all options
 * @throws UsageError for an unknown name, suggesting the nearest known name; or for a wrong value
 */
export function checkGiven<T extends object>(
  options: T,
  required: Kinds<Exclude<keyof T, OptionalKey<T>>>,
  optional: Kinds<OptionalKey<T>>,
  names?: { readonly spellings: Spellings; readonly help?: string },
): void {
  checkValue('options', 'options', options);
  const kinds: Readonly<Record<string, Kind>> = { ...required, ...optional };
  const known = Object.keys(kinds);
  const wrong = Object.entries(options).find(([name, value]) => value !== undefined && !known.includes(name))?.[0];
  if (wrong !== undefined) {
    const spellings = new Map([...known.map((name) => [name, name] as const), ...(names?.spellings ?? [])]);
    throw new UsageError(unknownOption(wrong, spellings, names?.help ?? `the options are ${known.join(', ')}`), {
      options: [wrong],
    });
  }
  for (const [name, kind] of Object.entries(kinds)) {
    const value = (options as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined || Object.hasOwn(required, name)) checkValue(name, kind, value);
  }
}

const ids: ObjectKind = { member: 'length', what: 'an array of numbers' };
const each = (what: string): ObjectKind => ({ member: Symbol.iterator, what });

/** The kinds of arguments that several public functions have in common, by the argument's name. */
export const argumentKinds = {
  ...{ path: 'text', folder: 'text', run: 'text', paths: 'texts', text: 'text or ""', prompt: 'text or ""' },
  device: { member: 'allocate', what: 'what Device.open() returns' },
  model: { member: 'activations', what: 'what createModel() returns (resolveWeights() reads weights)' },
  cache: { member: 'window', what: 'a KeyValueCache' },
  config: { member: 'layers', what: "a model's configuration, such as presetConfig() returns for a known name" },
  checkpoint: { member: 'manifest', what: 'what resolveCheckpoint() returns' },
  hellaswag: { member: 'questions', what: 'what readHellaswag() returns' },
  tokenizer: { member: 'append', what: 'a tokenizer, such as tokenizerNamed() returns' },
  signal: { member: 'aborted', what: 'an AbortSignal' },
  ...{ ids: each('token ids'), after: each('token ids'), documents: each('texts') },
  prompts: { member: 'map', what: 'arrays of ids' },
  nextBatch: { member: 'call', what: 'a function that returns a batch, such as () => loader.next()' },
  ...{ tokens: ids, targets: ids, inputs: ids, shape: ids, values: ids },
} as const satisfies Readonly<Record<string, Kind>>;

/** Checks arguments by name against `argumentKinds`. @throws UsageError naming the wrong argument, its kind and its value */
export function checkArguments(values: { readonly [Name in keyof typeof argumentKinds]?: unknown }): void {
  for (const [name, value] of Object.entries(values)) checkValue(name, argumentKinds[name as 'path'], value);
}

/** Checks one value. @param original the value to show in the message @throws UsageError with the option, its kind and the value */
export function checkValue(name: string, kind: Kind, value: unknown, original: unknown = value): void {
  const demand = (isRight: boolean, wanted: string) => {
    if (!isRight) throw UsageError.takes(name, wanted, original);
  };
  if (typeof kind === 'string') {
    const [wanted, has] = plainKinds[kind];
    demand(has(value), wanted);
  } else if ('member' in kind) demand(isObject(value) && kind.member in (value as object), kind.what);
  else if ('switch' in kind) demand(typeof value === 'boolean' || value === kind.or, `true, false or ${kind.or}`);
  else if (isNumeric(kind)) demand(isOfType(kind, value), describeType(kind, value));
  else if (!kind.includes(value as string)) {
    // No suggestion for a word of up to three letters: "gpu" is near "cpu", but not a typing mistake.
    const advice = typeof value === 'string' && value.length > 3 ? didYouMean(value, kind, undefined) : undefined;
    throw UsageError.takes(name, `one of ${kind.join(', ')}`, original).with({ advice });
  }
}

/** Rejects an async callback, because ops that it enqueues after its first `await` would come too late. @throws UsageError */
export function checkSynchronous(name: string, result: unknown): void {
  if (!(result instanceof Promise)) return;
  result.catch(() => {});
  throw new UsageError(`${name} returns a Promise; it must enqueue its ops before it returns, without await`);
}

export const isNumeric = (kind: Kind): kind is NumberType =>
  typeof kind === 'object' && ('integer' in kind || 'number' in kind);

type Range = readonly [least: number, most: number];

/** A range of numbers. Messages name the upper limits MAX_SAFE_INTEGER, MAX_VALUE and `largestFp32` only for a value over the limit. */
export type NumberType = {
  /** The range excludes both of its ends. */
  readonly isOpen?: true;
  /** A word that is allowed instead of a number, such as "auto". Before a run begins, a number replaces the word. */
  readonly or?: string;
  /** The word "all" is allowed instead of a number. A stored configuration keeps the word. */
  readonly orAll?: true;
  /** A time such as "10m" is allowed instead of a number. */
  readonly orTime?: true;
  /** In a text, the number may end in k (thousand), M (million) or B (billion). */
  readonly units?: true;
} & ({ readonly integer: Range } | { readonly number: Range });

export const whole = (least: number, most: number = Number.MAX_SAFE_INTEGER) => ({ integer: [least, most] }) as const;
const largestFp32 = 2 ** 128 - 2 ** 104;
/** Numbers from `least` to the largest fp32: a device would read larger ones as infinite. */
export const real = (least: number, most: number = largestFp32) => ({ number: [least, most] }) as const;
/** Factors from 0 that may exceed the largest fp32, because the host multiplies them in double before a device gets the result. */
export const factor = real(0, Number.MAX_VALUE);

const rangeOf = (type: NumberType): Range => ('integer' in type ? type.integer : type.number);

/** Whether a value is in a type's range, or is a word or a time that the type allows instead of a number. */
function isOfType(type: NumberType, value: unknown): boolean {
  const [least, most] = rangeOf(type);
  if (typeof value !== 'number') return isWordOf(type, value);
  if ('integer' in type && !Number.isSafeInteger(value)) return false;
  return type.isOpen ? value > least && value < most : value >= least && value <= most;
}

/** Whether a value is a word or a time that is allowed instead of a number. */
export const isWordOf = ({ or, orAll, orTime }: NumberType, value: unknown): boolean =>
  (or !== undefined && value === or) ||
  (orAll === true && value === 'all') ||
  (orTime === true && secondsOf(value) !== undefined);

/** A time in seconds, minutes or hours: "90s", "10m", "1.5h". */
export type Time = `${number}${keyof typeof unitSeconds}`;
const unitSeconds = { s: 1, m: 60, h: 3600 } as const;

/** A `Time` above 0 in seconds; undefined for any other value. */
export function secondsOf(value: unknown): number | undefined {
  const unit = typeof value === 'string' ? unitSeconds[value.slice(-1) as keyof typeof unitSeconds] : undefined;
  const number = unit && numberOf((value as string).slice(0, -1));
  return unit && number! > 0 && Number.isFinite(number) ? number! * unit : undefined;
}

const multiples = { k: 1e3, M: 1e6, B: 1e9 } as const;

/** Converts a decimal text, which may end in k (thousand), M (million) or B (billion); keeps a number. NaN for any other value. */
export function numberWithUnit(value: unknown): number {
  const multiple = typeof value === 'string' ? multiples[value.slice(-1) as keyof typeof multiples] : undefined;
  // Rounded to 15 digits, because 1.001 * 1000 is 1000.9999999999999 in double.
  return multiple ? Number((numberOf((value as string).slice(0, -1)) * multiple).toPrecision(15)) : numberOf(value);
}

/** Converts a decimal text; keeps a number. NaN for any other value, unlike Number(): Number('') is 0, Number([4]) is 4. */
export function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  const isDecimal = typeof value === 'string' && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value);
  return isDecimal ? Number(value) : Number.NaN;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** An environment variable as a whole number from `least` to `most`. @throws UsageError naming the variable and its range */
export function wholeVariable(environment: Environment, name: string, least: number, most: number): number {
  const text = environment[name];
  const value = /^\d{1,9}$/.test(text ?? '') ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw usageError`the environment variable ${name} must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`;
}

/** The values that a type allows, for messages: "a whole number from 1 to 65536 or auto". @param value the wrong value */
function describeType(type: NumberType, value: unknown): string {
  const [least, most] = rangeOf(type);
  const isUnlimited = [Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, largestFp32].includes(most);
  const limits = isUnlimited && !((value as number) > most) ? `of at least ${least}` : `from ${least} to ${most}`;
  const range = type.isOpen ? `over ${least} and under ${most}` : limits;
  const shorter = type.units ? ', also as 1.5k, 10M or 1B' : '';
  const or = type.or ?? (type.orAll && 'all') ?? (type.orTime && 'a time such as 90s, 10m or 1.5h');
  return `${'integer' in type ? 'a whole number' : 'a number'} ${range}${shorter}${or === undefined ? '' : ` or ${or}`}`;
}
