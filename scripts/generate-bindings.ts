// Makes src/native/bindings.generated.ts from cuda/gpt2.h: enums, koffi prototypes, and a typed, documented interface
// whose arguments go by name. The header's own rules (one declaration a function, GPT2_HOST on the caller's memory)
// make a small line-based reader enough. `npm run generate` writes the file; a test fails when it is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

interface Parameter {
  readonly name: string;
  readonly prototype: string;
  readonly type: string;
}

interface NativeFunction {
  readonly cName: string;
  readonly result: string;
  readonly parameters: readonly Parameter[];
  readonly comment: string;
}

const header = new URL('../cuda/gpt2.h', import.meta.url);
const output = new URL('../src/native/bindings.generated.ts', import.meta.url);

const integers = new Set(['int', 'int32_t', 'uint32_t']);

const camelCase = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

function parseParameter(text: string): Parameter {
  const host = text.includes('GPT2_HOST');
  const match = /^(?:const\s+)?(\w+)\s*(\**)\s*(\w+)$/.exec(text.replace('GPT2_HOST', '').trim());
  if (!match) throw new Error(`cuda/gpt2.h: cannot read the parameter "${text}"`);
  const [, base, stars, name] = match as unknown as [string, string, string, string];
  if (host) return { name: camelCase(name), prototype: 'void *', type: 'HostMemory' };
  if (stars !== '') return { name: camelCase(name), prototype: 'void *', type: 'Pointer | null' };
  if (base === 'float') return { name: camelCase(name), prototype: 'float', type: 'Float' };
  if (base === 'int64_t') return { name: camelCase(name), prototype: 'int64_t', type: 'Int64' };
  if (integers.has(base))
    return { name: camelCase(name), prototype: base, type: base === 'uint32_t' ? 'Uint32' : 'Int32' };
  throw new Error(`cuda/gpt2.h: no TypeScript type for the parameter "${text}"`);
}

function parseResult(text: string): string {
  const result = text.replace(/\s+/g, ' ').trim();
  if (result === 'int') return 'int';
  if (result === 'const char *') return 'text';
  if (/^gpt2_\w+ \*$/.test(result)) return 'pointer';
  throw new Error(`cuda/gpt2.h: no TypeScript type for the result "${result}"`);
}

/** The text of a C comment as lines for JSDoc; empty for a section's heading. */
function commentText(comment: string): string {
  if (comment.startsWith('/* ---')) return '';
  return comment
    .replace(/^\/\*\s?/, '')
    .replace(/\s*\*\/$/, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\*? ?/, '').trimEnd())
    .join('\n')
    .trim();
}

function parseFunctions(source: string): NativeFunction[] {
  const functions: NativeFunction[] = [];
  const declaration = /(\/\*(?:(?!\*\/)[\s\S])*\*\/\s*)?GPT2_API ((?:const )?\w+ \*?)\s*(gpt2_\w+)\(([^)]*)\);/g;
  for (const match of source.matchAll(declaration)) {
    const [, comment = '', result, cName, list] = match as unknown as [
      string,
      string | undefined,
      string,
      string,
      string,
    ];
    const parameters =
      list.trim() === 'void' ? [] : list.split(',').map((text) => parseParameter(text.replace(/\s+/g, ' ')));
    functions.push({ cName, result: parseResult(result), parameters, comment: commentText(comment.trim()) });
  }
  return functions;
}

function parseEnums(source: string): string {
  const blocks: string[] = [];
  for (const match of source.matchAll(/enum (GPT2_\w+) \{([\s\S]*?)\};/g)) {
    const [, name, body] = match as unknown as [string, string, string];
    const members = [...body.matchAll(/(GPT2_\w+) = (\d+)/g)].map(([, key, value]) => `  ${key}: ${value},`);
    blocks.push(`export const ${name} = {\n${members.join('\n')}\n} as const;`);
  }
  return blocks.join('\n\n');
}

function jsDoc(text: string, indent: string): string {
  if (text === '') return '';
  const lines = text.split('\n');
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

/** The whole text of bindings.generated.ts for the text of gpt2.h. */
export function generateBindings(source: string): string {
  const functions = parseFunctions(source);
  const declared = source.match(/^GPT2_API /gm)?.length ?? 0;
  if (functions.length !== declared) throw new Error(`cuda/gpt2.h: read ${functions.length} of ${declared} functions`);
  const version = /#define GPT2_ABI_VERSION (\d+)/.exec(source)?.[1];
  if (!version) throw new Error('cuda/gpt2.h: GPT2_ABI_VERSION not found');

  const short = (name: string) => camelCase(name.replace(/^gpt2_/, ''));
  const results: Record<string, string> = { int: 'number', text: 'string', pointer: 'Pointer | null' };
  const interfaceLines = functions.map(({ cName, result, parameters, comment }) => {
    const fields = parameters.map(({ name, type }) => `${name}: ${type}`).join('; ');
    const argument = parameters.length === 0 ? '' : `args: { ${fields} }`;
    return `${jsDoc(comment, '  ')}  ${short(cName)}(${argument}): ${results[result]};`;
  });
  const table = functions.map(({ cName, result, parameters }) => {
    const types = parameters.map((parameter) => `'${parameter.prototype}'`).join(', ');
    const names = parameters.map((parameter) => `'${parameter.name}'`).join(', ');
    const koffiResult = { int: 'int', text: 'const char *', pointer: 'void *' }[result];
    return `  ${short(cName)}: { symbol: '${cName}', result: '${koffiResult}', types: [${types}], names: [${names}] },`;
  });

  return `// Made from cuda/gpt2.h by scripts/generate-bindings.ts (npm run generate). Do not edit.

/** An address in device memory, or a handle of the library. */
export type Pointer = bigint;
/** The caller's own memory, or the address of memory from gpt2_allocate_pinned. */
export type HostMemory = NodeJS.TypedArray | Pointer;
export type Int32 = number;
export type Uint32 = number;
export type Int64 = number;
export type Float = number;

export const abiVersion = ${version};

${parseEnums(source)}

/** The library's functions, one each, arguments by name. A number result is a GPT2_STATUS unless its text says otherwise. */
export interface Bindings {
${interfaceLines.join('\n')}
}

/** What koffi needs to know of each function. */
export const signatures: Record<keyof Bindings, { symbol: string; result: string; types: string[]; names: string[] }> = {
${table.join('\n')}
};
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(output, generateBindings(readFileSync(header, 'utf8')));
}
