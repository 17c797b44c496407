// The rules of a refusal, whatever was wrong: one line that says what, where and what to do, and a code that says whether
// the command line alone was wrong.
import { expect } from 'vitest';
import { attempt, Gpt2Error } from '../../src/base/errors.ts';
import type { Finished } from './cli.ts';

/** A refusal ends in what to do, which takes one of these words: a verb that tells, or what there is to choose from. */
const advice =
  /\b(takes?|name|choose|again|give|make|run|start|see|download|leave|remove|replace|continue|train|must be|it needs|convert|fits|unset|is --model|[Dd]id you mean)\b/;

export interface Refusal {
  readonly code: 1 | 2;
  /** The fault, in its words. */
  readonly what: string | RegExp;
  /** The flags, files and folders that it has to name. */
  readonly where: readonly string[];
  /** Lines before it, of what was found on the way. */
  readonly notices?: number;
}

/** The message of the Gpt2Error that `work` throws; undefined if it throws none. */
export function refusalOf(work: () => unknown): string | undefined {
  const result = attempt(work);
  return result instanceof Gpt2Error ? result.message : undefined;
}

export function expectRefusal({ code, stderr }: Finished, wanted: Refusal): void {
  const lines = stderr.trimEnd().split('\n');
  const message = lines.at(-1)!;
  expect(message).toMatch(wanted.what);
  for (const name of wanted.where) expect(message).toContain(name);
  // The fault may contain a word of advice, which does not count.
  expect(message.replace(wanted.what, ''), `what to do is missing: ${message}`).toMatch(advice);
  expect(lines.length, stderr).toBe(1 + (wanted.notices ?? 0));
  expect(message.length, message).toBeLessThan(500);
  expect(stderr).not.toMatch(/^ {4}at |defect/m);
  expect(code, stderr).toBe(wanted.code);
}
