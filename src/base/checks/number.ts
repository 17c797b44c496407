// Checks numbers against ranges, and reads them strictly from text.

type Range = readonly [least: number, most: number];

/** If `most` is Number.MAX_SAFE_INTEGER, Number.MAX_VALUE or `largestFp32`, a message names it only for a larger value. */
export type NumberType = {
  /** Excludes the ends of the range. */
  readonly isOpen?: true;
  /** A word that is allowed instead, which becomes a number before a run begins. */
  readonly or?: string;
  /** The word "all" is allowed instead; a configuration stores the word. */
  readonly orAll?: true;
  /** A time is allowed instead. */
  readonly orTime?: true;
  /** As a text, the number may end in k, M or B. */
  readonly units?: true;
} & ({ readonly integer: Range } | { readonly number: Range });

export const whole = (least: number, most: number = Number.MAX_SAFE_INTEGER) => ({ integer: [least, most] }) as const;
const largestFp32 = 2 ** 128 - 2 ** 104;
/** Numbers from `least` to the largest fp32: a device would read larger ones as infinite. */
export const real = (least: number, most: number = largestFp32) => ({ number: [least, most] }) as const;
/** Factors that are multiplied in double, before a device gets the result: they may exceed fp32. */
export const factor = real(0, Number.MAX_VALUE);

const rangeOf = (type: NumberType): Range => ('integer' in type ? type.integer : type.number);

/** Whether a value is in the range, or is a word or a time that is allowed instead. */
export function isOfType(type: NumberType, value: unknown): boolean {
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

/** "a whole number from 1 to 65536 or auto" @param value the wrong value */
export function describeType(type: NumberType, value: unknown): string {
  const [least, most] = rangeOf(type);
  const isUnlimited = [Number.MAX_SAFE_INTEGER, Number.MAX_VALUE, largestFp32].includes(most);
  const limits = isUnlimited && !((value as number) > most) ? `of at least ${least}` : `from ${least} to ${most}`;
  const range = type.isOpen ? `over ${least} and under ${most}` : limits;
  const shorter = type.units ? ', also as 1.5k, 10M or 1B' : '';
  const or = type.or ?? (type.orAll && 'all') ?? (type.orTime && 'a time such as 90s, 10m or 1.5h');
  return `${'integer' in type ? 'a whole number' : 'a number'} ${range}${shorter}${or === undefined ? '' : ` or ${or}`}`;
}
