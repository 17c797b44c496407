// Reads numbers from environment variables.
import { usageError } from '../errors.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** An environment variable as a whole number from `least` to `most`. @throws UsageError naming the variable and its range */
export function wholeVariable(environment: Environment, name: string, least: number, most: number): number {
  const text = environment[name];
  const value = /^\d{1,9}$/.test(text ?? '') ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw usageError`the environment variable ${name} must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`;
}
