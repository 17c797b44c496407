// Reads numbers strictly, and names the range in its errors.
import { UsageError } from '../errors.ts';

export interface NumberRange {
  readonly kind: 'whole' | 'any';
  readonly least: number;
  /** If it is Number.MAX_SAFE_INTEGER, Number.MAX_VALUE or `largestFp32`, a message names it only for a larger value. */
  readonly most: number;
  /** Excludes `least` and `most`. */
  readonly isOpen?: boolean;
  /** A word that is allowed instead; the caller reads it. */
  readonly or?: string;
  /** A text of the number may end in k, M or B. */
  readonly units?: boolean | undefined;
}

/** Whole numbers from `least`. */
export const whole = (least: number, most: number = Number.MAX_SAFE_INTEGER) => ({ integer: [least, most] }) as const;
const largestFp32 = 2 ** 128 - 2 ** 104;
/** Numbers from `least` to the largest fp32: a device would read larger ones as infinite. */
export const real = (least: number, most: number = largestFp32) => ({ number: [least, most] }) as const;
/** Factors that are multiplied in double, before a device gets the result: they may exceed fp32. */
export const factor = real(0, Number.MAX_VALUE);

/** Reads a number or the text of one. @throws UsageError naming the flag, the range and the value */
export function readNumber(flag: string, value: unknown, range: NumberRange): number {
  const number = numberOf(value);
  checkNumber(flag, number, range, value);
  return number;
}

/** @param original the value as the message shows it @throws UsageError as `readNumber` */
export function checkNumber(name: string, value: unknown, range: NumberRange, original: unknown = value): void {
  const { kind, least, most, isOpen = false } = range;
  if (typeof value === 'number' && (kind === 'any' || Number.isSafeInteger(value))) {
    if (isOpen ? value > least && value < most : value >= least && value <= most) return;
  }
  throw UsageError.takes(name, describe(range, value), original);
}

/** "90s", "10m", "1.5h" */
export type Time = `${number}${keyof typeof unitSeconds}`;
const unitSeconds = { s: 1, m: 60, h: 3600 } as const;

/** Seconds of a `Time` over 0; undefined for any other value. */
export function secondsOf(value: unknown): number | undefined {
  const unit = typeof value === 'string' ? unitSeconds[value.slice(-1) as keyof typeof unitSeconds] : undefined;
  const number = unit && numberOf((value as string).slice(0, -1));
  return unit && number! > 0 && Number.isFinite(number) ? number! * unit : undefined;
}

const multiples = { k: 1e3, M: 1e6, B: 1e9 } as const;

/** As `numberOf`, for a text that may end in k (thousand), M (million) or B (billion). */
export function numberWithUnit(value: unknown): number {
  const multiple = typeof value === 'string' ? multiples[value.slice(-1) as keyof typeof multiples] : undefined;
  // 1.001 * 1000 is 1000.9999999999999.
  return multiple ? Number((numberOf((value as string).slice(0, -1)) * multiple).toPrecision(15)) : numberOf(value);
}

/** NaN for all but numbers and decimal texts: Number('') is 0, Number('0x10') is 16, Number([4]) is 4, Number(true) is 1. */
export function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  const isDecimal = typeof value === 'string' && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value);
  return isDecimal ? Number(value) : Number.NaN;
}

function describe({ kind, least, most, isOpen, or, units }: NumberRange, value: unknown): string {
  const isUnlimited = [Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, largestFp32].includes(most);
  const limits = isUnlimited && !((value as number) > most) ? `of at least ${least}` : `from ${least} to ${most}`;
  const range = isOpen ? `over ${least} and under ${most}` : limits;
  const shorter = units ? ', also as 1.5k, 10M or 1B' : '';
  return `${kind === 'whole' ? 'a whole number' : 'a number'} ${range}${shorter}${or === undefined ? '' : ` or ${or}`}`;
}
