// Makes the tables of docs/README.md from comments in cuda/gpt2.h: dtypes, the step block.
import { readFileSync } from 'node:fs';
import { table } from './docs-options.ts';

const header = readFileSync(new URL('../cuda/gpt2.h', import.meta.url), 'utf8');

function part(pattern: RegExp): string {
  const found = pattern.exec(header)?.[1];
  if (found === undefined) throw new Error(`cuda/gpt2.h has nothing like ${pattern}`);
  return found;
}

/** The dtype of each kind of tensor, by the dtype of the context. */
export function dtypes(): string {
  const text = part(/of each kind of tensor in it:\n([\s\S]*?)\n \* In fp32/).replaceAll(' * ', '');
  const [types, ...kinds] = text.split('\n').map((line) => line.trim().split(/ {2,}/)) as [string[], ...string[][]];
  const rows: string[][] = [];
  let begun = '';
  for (const [kind, ...dtypes] of kinds) {
    begun += begun === '' ? kind : ` ${kind}`;
    if (dtypes.length === 0) continue;
    rows.push([begun, ...dtypes]);
    begun = '';
  }
  return table(['in a context of', ...types], rows, 3);
}

/** The values of the step block, by index. */
export function stepBlock(): string {
  const body = part(/enum GPT2_STEP \{([\s\S]*?)\n\};/);
  const values = [...body.matchAll(/GPT2_STEP_(\w+) = (\d+),?(?: +\/\* (.*) \*\/)?/g)];
  // Leave out the enum's last member, which is the size of the step block.
  const rows = values.slice(0, -1).map(([, name, index, meaning = ''], place) => {
    const next = place === values.length - 2 ? Number(index) + 1 : Number(values[place + 1]![2]);
    return [next - 1 > Number(index) ? `${index} to ${next - 1}` : index!, `\`${name}\``, meaning];
  });
  return table(['index', 'name', 'meaning'], rows, 3);
}
