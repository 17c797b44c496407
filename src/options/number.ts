// Reads numbers strictly, and names the range in its errors.
import { UsageError } from '../errors.ts';

export interface NumberRange {
  readonly kind: 'whole' | 'any';
  readonly least: number;
  /** Number.MAX_SAFE_INTEGER or Number.MAX_VALUE: no limit. */
  readonly most: number;
  /** The limits themselves are excluded. */
  readonly isOpen?: boolean;
  /** A word that is allowed instead; the caller reads it. */
  readonly or?: string;
}

/** @throws UsageError naming the flag, the range and the value */
export function readNumber(flag: string, value: unknown, range: NumberRange): number {
  const { kind, least, most, isOpen = false } = range;
  const number = numberOf(value);
  const isInside = isOpen ? number > least && number < most : number >= least && number <= most;
  if (isInside && (kind === 'any' || Number.isSafeInteger(number))) return number;
  throw new UsageError(`${flag} takes ${describe(range)}, not ${JSON.stringify(value)}`);
}

/** NaN for all but numbers and decimal texts: Number('') is 0, Number('0x10') is 16, Number([4]) is 4, Number(true) is 1. */
function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  const isDecimal = typeof value === 'string' && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value);
  return isDecimal ? Number(value) : Number.NaN;
}

function describe({ kind, least, most, isOpen, or }: NumberRange): string {
  const isUnlimited = most === Number.MAX_SAFE_INTEGER || most === Number.MAX_VALUE;
  const limits = isUnlimited ? `of at least ${least}` : `from ${least} to ${most}`;
  const range = isOpen ? `over ${least} and under ${most}` : limits;
  return `${kind === 'whole' ? 'a whole number' : 'a number'} ${range}${or === undefined ? '' : ` or ${or}`}`;
}
