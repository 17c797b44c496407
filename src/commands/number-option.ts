// Makes commander's options whose value is a number.
import { Option } from 'commander';
import { type NumberRange, readNumber } from '../program.ts';

/** A range that several options share. */
export const count = { least: 1, most: 65536 };
export const share = { kind: 'any', least: 0, most: 1 } as const;

/** An option that rejects, with a UsageError, a value that is no number of its range; whole numbers unless `kind` is 'any'. */
export const numberOption = (
  usage: string,
  help: string,
  range: Omit<NumberRange, 'kind'> & Partial<NumberRange>,
  otherwise?: number,
): Option =>
  new Option(usage, help)
    .default(otherwise)
    .argParser((text) => readNumber(usage.split(' ')[0]!, text, { kind: 'whole', ...range }));
