// Reads cuda/gpt2.h: its functions with their parameters and comments, and its enums. The header's rules (one declaration per
// function, GPT2_HOST for the caller's memory) make a line-based reader sufficient.

export interface Parameter {
  /** The name in the header: "max_norm". */
  readonly cName: string;
  /** The name in TypeScript: "maxNorm". */
  readonly name: string;
  /** The type without `const` and `*`: "float", "void", "gpt2_context". */
  readonly base: string;
  readonly isPointer: boolean;
  /** Whether the type is a pointer to a pointer, through which the function returns a result. */
  readonly isPlace: boolean;
  readonly isConst: boolean;
  /** Whether the parameter points to memory of the caller (GPT2_HOST). */
  readonly isHost: boolean;
  readonly isFlag: boolean;
}

export interface NativeFunction {
  /** "gpt2_norm_forward" */
  readonly symbol: string;
  /** "normForward" */
  readonly name: string;
  readonly result: string;
  readonly parameters: readonly Parameter[];
  /** The text of the comment before the declaration, without the comment's marks; "" if there is none. */
  readonly comment: string;
  /** For an op, the comment's indented last lines, which state shapes; else "". */
  readonly shapes: string;
  /** Whether the declaration is in the header's section of ops. */
  readonly isInOps: boolean;
}

/** A capture group of a match, which may be missing. */
type Part = string | undefined;

export const camelCase = (name: string): string =>
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

function parseParameter(text: string): Parameter {
  const match = /^(GPT2_HOST )?(const )?(\w+) ?(\**)(\w+)$/.exec(text.replace(/\s+/g, ' ').trim());
  if (!match) throw new Error(`cuda/gpt2.h: cannot read the parameter "${text.trim()}"`);
  const [, host, constant, base, stars, cName] = match as unknown as [string, Part, Part, string, string, string];
  const pointer = { isPointer: stars !== '', isPlace: stars === '**' };
  const flags = { ...pointer, isConst: constant !== undefined, isHost: host !== undefined };
  return { cName, name: camelCase(cName), base, ...flags, isFlag: ['accumulate', 'gradients', 'fp8'].includes(cName) };
}

/** The text of a C comment, line by line; empty for a section's heading. */
function commentText(comment: string): string {
  if (/^\/\* [-=]{3}/.test(comment)) return '';
  return comment
    .replace(/^\/\*\s?/, '')
    .replace(/\s*\*\/$/, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\*? ?/, '').trimEnd())
    .join('\n')
    .trim();
}

/** @throws Error naming a declaration that cannot be read */
export function parseFunctions(source: string): NativeFunction[] {
  const firstOp = source.indexOf('/* ================================================================ ops');
  const declaration = /(\/\*(?:(?!\*\/)[\s\S])*\*\/\s*)?GPT2_API ((?:const )?\w+ \*?)\s*(gpt2_\w+)\(([^)]*)\);/g;
  const functions = [...source.matchAll(declaration)].map((match): NativeFunction => {
    const [, before = '', result, symbol, list] = match as unknown as [string, Part, string, string, string];
    const comment = commentText(before.trim());
    const isInOps = firstOp >= 0 && match.index > firstOp;
    return {
      symbol,
      name: camelCase(symbol.replace(/^gpt2_/, '')),
      result: result.replace(/\s+/g, ' ').trim(),
      parameters: list.trim() === 'void' ? [] : list.split(',').map(parseParameter),
      comment,
      shapes: isInOps ? (/(?:^ {2,}.*\n?)+$/m.exec(comment)?.[0] ?? '') : '',
      isInOps,
    };
  });
  const declared = source.match(/^GPT2_API /gm)?.length ?? 0;
  if (functions.length !== declared) throw new Error(`cuda/gpt2.h: read ${functions.length} of ${declared} functions`);
  return functions;
}

/** Every enum's members by name, in the header's order. */
export function parseEnums(source: string): Map<string, Map<string, number>> {
  const enums = [...source.matchAll(/enum (GPT2_\w+) \{([\s\S]*?)\};/g)].map(([, name, body]) => {
    const members = [...body!.matchAll(/(GPT2_\w+) = (\d+)/g)].map(([, key, value]) => [key!, Number(value)] as const);
    return [name!, new Map(members)] as const;
  });
  return new Map(enums);
}

/** Text as a JSDoc comment; "" for no text. */
export function jsDoc(text: string, indent = ''): string {
  if (text === '') return '';
  const lines = text.split('\n');
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}
