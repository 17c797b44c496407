// Numbers of the command line, read strictly: Number('') is 0 and Number('0x10') is 16, neither of which can be meant.
import { UsageError } from '../errors.ts';

const numberOf = (text: string): number =>
  /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;

/** A reader of a flag's value. @throws UsageError for what is not a number of its kind and range */
export const strictNumber = (flag: string, least: number, most: number, kind: 'whole' | 'any') => (text: string) => {
  const value = numberOf(text);
  if (value >= least && value <= most && (kind === 'any' || Number.isSafeInteger(value))) return value;
  const wanted = kind === 'whole' ? 'a whole number' : 'a number';
  throw new UsageError(`${flag} takes ${wanted} from ${least} to ${most}, not ${JSON.stringify(text)}`);
};

/** The same for a share that leaves something on both sides. @throws likewise */
export const share = (flag: string) => (text: string) => {
  const value = numberOf(text);
  if (value > 0 && value < 1) return value;
  throw new UsageError(`${flag} takes a number over 0 and under 1, not ${JSON.stringify(text)}`);
};
