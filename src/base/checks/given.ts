// Checks the options that a program passes to the public API: names, types and ranges. Numbers are numbers here, while files
// and the command line hold them as text.
import { UsageError } from '../errors.ts';
import { didYouMean, type Spellings, unknownOption } from './nearest.ts';
import { describeType, isOfType, type NumberType } from './number.ts';

/** A text, several texts, a switch, a switch or a word, a number, or one of several words. */
export type ValueType =
  | 'text'
  | 'texts'
  | 'switch'
  | { readonly switch: true; readonly or: string }
  | NumberType
  | readonly string[];

/** The kind of value of an API option; the functions that receive an 'object' check its content. */
export type Kind = ValueType | 'text or ""' | 'function' | 'object' | 'text or object' | 'object or function';

type OptionalKey<T> = { [K in keyof T]-?: object extends Pick<T, K> ? K : never }[keyof T];
type Kinds<Name extends PropertyKey> = Readonly<Record<Name, Kind>>;

/**
 * Checks an object of options.
 * @param required the kind of each option without a default
 * @param optional the kind of each option with a default
 * @param names other spellings of the options, such as earlier names, and where to find all
 * @throws UsageError for an unknown name, with the nearest one, or a wrong value
 */
export function checkGiven<T extends object>(
  options: T,
  required: Kinds<Exclude<keyof T, OptionalKey<T>>>,
  optional: Kinds<OptionalKey<T>>,
  names?: { readonly spellings: Spellings; readonly help?: string },
): void {
  checkValue('options', 'object', options);
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

/** @param original the value as the message shows it @throws UsageError naming the option, what it takes, and the value */
export function checkValue(name: string, kind: Kind, value: unknown, original: unknown = value): void {
  const demand = (isRight: boolean, wanted: string) => {
    if (!isRight) throw UsageError.takes(name, wanted, original);
  };
  const isText = typeof value === 'string';
  if (kind === 'switch') demand(typeof value === 'boolean', 'true or false');
  else if (kind === 'text') demand(isText && value !== '', 'a text');
  else if (kind === 'text or ""') demand(isText, 'a text');
  else if (kind === 'texts') demand(Array.isArray(value) && value.every((text) => typeof text === 'string'), 'texts');
  else if (kind === 'text or object')
    demand((isText && value !== '') || Object(value) === value, 'a text or an object');
  else if (kind === 'function') demand(typeof value === 'function', 'a function');
  else if (kind === 'object or function') demand(Object(value) === value, 'an object or a function');
  else if (kind === 'object') demand(typeof value === 'object' && value !== null, 'an object');
  else if ('switch' in kind) demand(typeof value === 'boolean' || value === kind.or, `true, false or ${kind.or}`);
  else if (isNumeric(kind)) demand(isOfType(kind, value), describeType(kind, value));
  else if (!kind.includes(value as string)) {
    // "gpu" is not "cpu".
    const advice = isText && value.length > 3 ? didYouMean(value, kind, undefined) : undefined;
    throw UsageError.takes(name, `one of ${kind.join(', ')}`, original).with({ advice });
  }
}

export const isNumeric = (kind: Kind): kind is NumberType =>
  typeof kind === 'object' && ('integer' in kind || 'number' in kind);
