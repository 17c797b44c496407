// Makes src/options/train-options.generated.ts: the options table as a type, so that editors show each option's help.
import { isNumeric } from '../../src/base/checks/given.ts';
import { helpOf, type OptionRow } from '../../src/options/row.ts';
import { optionNames, optionRows } from '../../src/options/table.ts';
import { jsDoc } from './header.ts';

/** The type of an option's value in TypeScript. */
export function valueTypeOf({ type }: OptionRow): string {
  if (type === 'text') return 'string';
  if (type === 'texts') return 'readonly string[]';
  if (type === 'switch') return 'boolean';
  if (isNumeric(type)) {
    const words = [type.or, type.orAll && 'all'].filter((word) => word !== undefined).map((word) => ` | '${word}'`);
    return `number${words.join('')}${type.orTime ? ' | Time' : ''}`;
  }
  if ('switch' in type) return `boolean | '${type.or}'`;
  return type.map((word) => `'${word}'`).join(' | ');
}

export function trainOptions(): string {
  const fields = optionNames.map((name) => {
    const row = optionRows[name];
    return `${jsDoc(`\`${row.usage}\`: ${helpOf(row)}.`, '  ')}  ${name}?: ${valueTypeOf(row)} | undefined;`;
  });
  return `// Made from the options table by scripts/generate (npm run generate). Do not edit.
import type { Time } from '../base/checks/given.ts';

/** Options of a run as given: any may be missing. A key is the name in config.json; the comment begins with its flag. */
export type TrainOptions = {
${fields.join('\n')}
};
`;
}
