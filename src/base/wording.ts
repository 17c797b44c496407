// Names options and commands in messages. Messages have flags (--total-batch) in a process that the command line started, and the
// names of options (totalBatch) in other programs. A browser runs this file too.

/** Exceptions to two rules: an option's name is its flag in camel case, and a flag takes a value. */
interface Spellings {
  /** Option names by flag, for names that are not the flag in camel case: "sequence" for --seq. */
  readonly names: ReadonlyMap<string, string>;
  /** Flags without a value, of options that are true or false. */
  readonly switches: ReadonlySet<string>;
}

// Threads inherit the environment data of node:worker_threads when they start. A browser lacks this module, so it is not imported.
const threads = globalThis.process?.getBuiltinModule('node:worker_threads');
const audience = 'gpt2.ts: messages name flags';

/** Sets whether messages of this process, and of threads that it starts later, name flags (--seq) instead of options (sequence). */
export const speakFlags = (isSpoken = true): void => threads.setEnvironmentData(audience, isSpoken);
const isCommandLine = () => threads?.getEnvironmentData(audience) === true;

let spellings: Spellings = { names: new Map(), switches: new Set() };
export function nameFlags(known: Spellings): void {
  spellings = known;
}

/** The option's name for a flag: "totalBatch" for "--total-batch". */
export const nameOf = (flag: string): string =>
  spellings.names.get(flag) ?? flag.slice(2).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/**
 * Template tag: outside the command line, flags in a message become option names. Values, and commands in backquotes, stay unchanged.
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

/** Replaces flags by option names as the tag `words` does, in a text into which no values are inserted. */
export const spelled = (text: string): string => (isCommandLine() ? text : inNames(text));
export const inNames = (text: string): string => withNames(text, true);

/** The text if the command line started this process, else "": for the flag of a value that is a positional argument in the API. */
export const onCommandLine = (text: string): string => (isCommandLine() ? text : '');

/** Advice to resume a stopped run: "continue with --out runs/first --resume". */
export const continueWith = (out: string): string =>
  isCommandLine()
    ? `continue with --out ${shellWord(out)} --resume`
    : `continue with { out: ${JSON.stringify(out)}, resume: true }`;

/** Replaces flags by option names: "with --out" becomes "with the option out", "another --out" becomes "another path as out". */
const withNames = (words: string, isLast: boolean): string => {
  const text = words.replaceAll(/another --out(?![\w-])/g, 'another path as out');
  return text.replaceAll(/( with )?(--[a-z][\w-]*)/g, (all, before = '', flag: string, start: number) => {
    const on = flag.replace(/^--no-/, '--');
    if (spellings.switches.has(on)) return `${before}${nameOf(on)}: ${on === flag}`;
    const next = text[start + all.length];
    const isOption = before !== '' && (next === undefined ? isLast : ';,'.includes(next));
    return `${before}${isOption ? 'the option ' : ''}${nameOf(flag)}`;
  });
};

/** Whether this code runs from an installed package, not from a git clone. */
export const isInstalled: boolean = import.meta.url.includes('/node_modules/');

/** Whether this code is compiled (dist/), so that its commands start with npx. In a git clone, npm scripts run src/ instead. */
export const isCompiled: boolean = import.meta.url.endsWith('.js');

/** Replaces "npm run ...", the commands of a git clone, in a text by the commands of compiled code or of an installed package. */
export function asTyped(text: string, { compiled = isCompiled, installed = isInstalled } = {}): string {
  const run = compiled ? text.split('\n').map(withNpx).join('\n') : text;
  return installed ? run.replaceAll(/npm run (build:\w+)/g, 'npm --prefix node_modules/gpt2.ts run $1') : run;
}

/** Replaces "npm run" by "npx" in a line. A second column, after two or more spaces, keeps its position. */
function withNpx(line: string): string {
  const [all, command, rest] = /^(.*?\S) {2,}(?=\S)(.*)$/.exec(line) ?? [];
  if (all !== undefined) return withNpx(command!).padEnd(all.length - rest!.length) + withNpx(rest!);
  const ours = 'npm run (?:--silent )?(?=(?:gpt2|prepro|train|sample|eval|compare|bench)\\b)';
  return line
    .replaceAll(new RegExp(`(${ours}[^\`]*?) -- `, 'g'), '$1 ')
    .replaceAll(new RegExp(`${ours}(?:gpt2 )?`, 'g'), 'npx gpt2 ');
}

/** A path or name as one word of a command line, in quotes if it needs them. */
export const shellWord = (text: string): string =>
  /^[\w./=,@:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
