// Readers of numbers on the command line, by flag and range.
import { type NumberRange, readNumber } from '../program.ts';

/** @throws UsageError for what is not a number of its kind and range */
export const strictNumber = (flag: string, least: number, most: number, kind: NumberRange['kind']) => (text: string) =>
  readNumber(flag, text, { kind, least, most });

/** For a share that leaves something on both sides. @throws likewise */
export const share = (flag: string) => (text: string) =>
  readNumber(flag, text, { kind: 'any', least: 0, most: 1, isOpen: true });
