// How messages name options: as flags where the command line started this process, else as programs give them.
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { shellWord } from './package-root.ts';

/** What is not the flag in camel case. */
interface Spellings {
  /** "sequence" for --seq */
  readonly names: ReadonlyMap<string, string>;
  /** Flags of options that are true or false. */
  readonly switches: ReadonlySet<string>;
}

// Threads that start later inherit both.
const audience = 'gpt2.ts: messages are for the command line';
const spellings = 'gpt2.ts: options by their flags';

/** From now on messages of this process name flags. */
export const speakFlags = (isSpoken = true): void => setEnvironmentData(audience, isSpoken);
const isCommandLine = () => getEnvironmentData(audience) === true;

export const nameFlags = (known: Spellings): void => setEnvironmentData(spellings, known as never);
const known = () => getEnvironmentData(spellings) as Spellings | undefined;

/** "totalBatch" for --total-batch */
export const nameOf = (flag: string): string =>
  known()?.names.get(flag) ?? flag.slice(2).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/**
 * Tags a message that names flags: for programs, it names options in their place. Values, and commands in backquotes, are as they are.
 * @example words`--seq ${70} is over 64; take a shorter --seq` // "sequence 70 is over 64; take a shorter sequence"
 */
export function words(texts: TemplateStringsArray, ...values: readonly unknown[]): string {
  let isCommand = false;
  const worded = texts.map((text, index) => {
    const pieces = text.split('`').map((piece, place) => {
      if (place > 0) isCommand = !isCommand;
      return isCommand ? piece : withNames(piece, index === values.length);
    });
    return pieces.join('`');
  });
  return String.raw({ raw: isCommandLine() ? texts : worded }, ...values);
}

/** A text without values that names flags, such as a flag alone: for programs, it names options. */
export const spelled = (text: string): string => (isCommandLine() ? text : withNames(text, true));

/** Words for the command line alone, such as the flag for what is an argument of a function. */
export const onCommandLine = (text: string): string => (isCommandLine() ? text : '');

/** How a stopped run goes on: "continue with --out runs/first --resume". */
export const continueWith = (out: string): string =>
  isCommandLine()
    ? `continue with --out ${shellWord(out)} --resume`
    : `continue with { out: ${JSON.stringify(out)}, resume: true }`;

/** "with out" and "another out" would read as other words. */
const withNames = (words: string, isLast: boolean): string => {
  const text = words.replaceAll(/another --out(?![\w-])/g, 'another path as out');
  return text.replaceAll(/( with )?(--[a-z][\w-]*)/g, (all, before = '', flag: string, start: number) => {
    if (known()?.switches.has(flag)) return `${before}${nameOf(flag)}: true`;
    const next = text[start + all.length];
    const isOption = before !== '' && (next === undefined ? isLast : ';,'.includes(next));
    return `${before}${isOption ? 'the option ' : ''}${nameOf(flag)}`;
  });
};
