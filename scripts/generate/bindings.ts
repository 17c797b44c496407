// Makes src/native/bindings.generated.ts: enums, koffi prototypes, and a typed, documented interface of all functions
// of cuda/gpt2.h, with arguments by name.
import { jsDoc, type NativeFunction, type Parameter } from './header.ts';

const integers: Record<string, string> = { int: 'Int32', int32_t: 'Int32', uint32_t: 'Uint32', int64_t: 'Int64' };
const results: Record<string, { koffi: string; type: string }> = {
  int: { koffi: 'int', type: 'number' },
  'const char *': { koffi: 'const char *', type: 'string' },
};

function typeOf({ isHost, isPointer, base, cName }: Parameter): { koffi: string; type: string } {
  if (isHost) return { koffi: 'void *', type: 'HostMemory' };
  if (isPointer) return { koffi: 'void *', type: 'Pointer | null' };
  if (base === 'float') return { koffi: 'float', type: 'Float' };
  const type = integers[base];
  if (!type) throw new Error(`cuda/gpt2.h: no TypeScript type for the parameter "${base} ${cName}"`);
  return { koffi: base, type };
}

function resultOf({ symbol, result }: NativeFunction): { koffi: string; type: string } {
  const known = /^gpt2_\w+ \*$/.test(result) ? { koffi: 'void *', type: 'Pointer | null' } : results[result];
  if (!known) throw new Error(`cuda/gpt2.h: no TypeScript type for the result "${result}" of ${symbol}`);
  return known;
}

export function bindings(
  source: string,
  functions: readonly NativeFunction[],
  enums: ReadonlyMap<string, ReadonlyMap<string, number>>,
): string {
  const version = /#define GPT2_ABI_VERSION (\d+)/.exec(source)?.[1];
  if (!version) throw new Error('cuda/gpt2.h: GPT2_ABI_VERSION not found');
  const constants = [...enums].map(([name, members]) => {
    const lines = [...members].map(([key, value]) => `  ${key}: ${value},`);
    return `export const ${name} = {\n${lines.join('\n')}\n} as const;`;
  });
  const members = functions.map((declaration) => {
    const fields = declaration.parameters.map((parameter) => `${parameter.name}: ${typeOf(parameter).type}`).join('; ');
    const args = fields === '' ? '' : `args: { ${fields} }`;
    return `${jsDoc(declaration.comment, '  ')}  ${declaration.name}(${args}): ${resultOf(declaration).type};`;
  });
  const signatures = functions.map((declaration) => {
    const types = declaration.parameters.map((parameter) => `'${typeOf(parameter).koffi}'`).join(', ');
    const names = declaration.parameters.map(({ name }) => `'${name}'`).join(', ');
    const { koffi } = resultOf(declaration);
    return `  ${declaration.name}: { symbol: '${declaration.symbol}', result: '${koffi}', types: [${types}], names: [${names}] },`;
  });
  return `// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.

/** An address in device memory, or a handle of the library. */
export type Pointer = bigint;
/** Memory of the caller, or the address of memory from gpt2_allocate_pinned. */
export type HostMemory = ArrayBufferView | Pointer;
export type Int32 = number;
export type Uint32 = number;
export type Int64 = number;
export type Float = number;

export const abiVersion = ${version};

${constants.join('\n\n')}

/** The library's functions, arguments by name. A number result is a GPT2_STATUS unless its text says otherwise. */
export interface Bindings {
${members.join('\n')}
}

/** The prototype of each function, for koffi. */
export const signatures: Record<keyof Bindings, { symbol: string; result: string; types: string[]; names: string[] }> = {
${signatures.join('\n')}
};
`;
}
