// Makes every file that repeats cuda/gpt2.h, and the type of the options table. `npm run generate` writes them; a test fails when
// one is stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bindings } from './bindings.ts';
import { parseEnums, parseFunctions } from './header.ts';
import { api, cpuOps, kernelTable, opsHeader, wrapped } from './native.ts';
import { ops } from './ops.ts';
import { type Header, parseOps } from './shapes.ts';

const root = new URL('../../', import.meta.url);

/**
 * The text of each file that repeats gpt2.h, by path.
 * @throws Error naming a declaration or a line of shapes that cannot be read
 */
export function generate(source: string): Record<string, string> {
  const functions = parseFunctions(source);
  const enums = parseEnums(source);
  const constants = new Map([...enums.values()].flatMap((members) => [...members]));
  const scratches = functions.filter(({ isInOps, symbol }) => isInOps && symbol.endsWith('_scratch'));
  const header: Header = { functions, ops: parseOps(functions, constants), scratches, constants };
  return {
    'src/native/bindings.generated.ts': bindings(source, functions, enums),
    'src/ops/ops.generated.ts': ops(header),
    'cuda/runtime/ops.generated.h': wrapped(opsHeader(header)),
    'cuda/runtime/api.generated.cpp': wrapped(api(header)),
    'cuda/cpu/kernels.generated.h': wrapped(kernelTable(header)),
    'cuda/cpu/ops.generated.cpp': wrapped(cpuOps(header)),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = generate(readFileSync(new URL('cuda/gpt2.h', root), 'utf8'));
  for (const [path, text] of Object.entries(files)) writeFileSync(new URL(path, root), text);
  // The options table imports the optimizers, which import ops that may be new.
  const { trainOptions } = await import('./options.ts');
  writeFileSync(new URL('src/options/train-options.generated.ts', root), trainOptions());
}
