// Numbers of the command line, read strictly: Number('') is 0 and Number('0x10') is 16, neither of which can be meant.
import { UsageError } from '../errors.ts';

/** A reader of a flag's value. @throws UsageError for what is not a number of its kind and range */
export const strictNumber = (flag: string, least: number, most: number, kind: 'whole' | 'any') => (text: string) => {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most && (kind === 'any' || Number.isSafeInteger(value))) return value;
  const wanted = kind === 'whole' ? 'a whole number' : 'a number';
  throw new UsageError(`${flag} takes ${wanted} from ${least} to ${most}, not ${JSON.stringify(text)}`);
};
