// Makes the reference of docs/api.md from src/index.ts and the doc comments of its exports. All definitions in the sources have
// the same layout (`/** comment */`, `export`, a signature that Biome formatted), so patterns are enough to read them.
import { readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Exported {
  readonly name: string;
  readonly isType: boolean;
  /** Path from the repository's root. */
  readonly file: string;
}

/** The exports of a section of index.ts. */
const exportsOf = (part: string): Exported[] =>
  [...part.matchAll(/^export (type )?\{([^}]+)\} from '([^']+)';/gm)].flatMap(([, type, names, from]) => {
    const all = names!.split(',').map((name) => name.trim());
    return all
      .filter((name) => name !== '')
      .map((name) => ({
        name: name.replace(/^type /, ''),
        isType: type !== undefined || name.startsWith('type '),
        file: normalize(join('src', from!)),
      }));
  });

/** The file that defines a name which `file` re-exports. */
function definingFile({ name, file }: Exported): string {
  const passedOn = new RegExp(`import[^;]*\\b${name}\\b[^;]* from '([^']+)';[\\s\\S]*export type \\{ ${name} \\}`).exec(
    read(file),
  );
  return passedOn ? normalize(join(file, '..', passedOn[1]!)) : file;
}

/** The comment of a name's definition without its marks, and the text after it. @throws Error if there is no definition */
function definitionOf(exported: Exported): { comment: string; text: string } {
  const file = definingFile(exported);
  const definition = new RegExp(
    `(?:/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\n)?(export (?:async )?(?:function\\*?|const|class|interface|type) ${exported.name}\\b[\\s\\S]*)`,
  );
  const [, comment = '', text] = definition.exec(read(file)) ?? [];
  if (text === undefined) throw new Error(`src/index.ts: ${file} does not define ${exported.name}`);
  return { comment: comment.replaceAll(/^ +\* ?/gm, '').trim(), text };
}

/** A declaration in one line, without its body. */
function signatureOf(text: string): string {
  const [head = ''] =
    /^export class [^{]+|^export (?:async )?function[\s\S]*?\)(?:: [^\n]+)?(?= \{\n)|^export const [\s\S]*?(?= =>)/.exec(
      text,
    ) ?? [];
  return head
    .replace(/^export /, '')
    .replaceAll(/,?\n\s*(?=[)}])/g, '')
    .replaceAll(/\(\n\s*/g, '(')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function valueText(exported: Exported): string {
  const { comment, text } = definitionOf(exported);
  const [what = '', ...tags] = comment.split(/^@|(?<= )@(?=param|throws|example)/m).map((part) => part.trim());
  const tag = (name: string) =>
    tags
      .find((each) => each.startsWith(`${name} `) || each.startsWith(`${name}\n`))
      ?.slice(name.length)
      .trim();
  const params = tags
    .filter((each) => each.startsWith('param '))
    .map((each) => each.replace(/^param (\w+)\s+/, '- `$1`: '));
  const [throws, example] = [tag('throws'), tag('example')];
  return [
    `### ${exported.name}`,
    `\`\`\`ts\n${signatureOf(text)}\n\`\`\``,
    what,
    ...(params.length === 0 ? [] : [params.join('\n')]),
    ...(throws === undefined ? [] : [`Throws ${throws.replace(/\.?$/, '.')}`]),
    ...(example === undefined ? [] : [`\`\`\`ts\n${example}\n\`\`\``]),
  ].join('\n\n');
}

function typeLine(exported: Exported): string {
  const [first = ''] = definitionOf(exported).comment.split(/\n\n|^@/m);
  const file = definingFile(exported);
  return `- [\`${exported.name}\`](../${file})${first === '' ? '' : `: ${first.replaceAll(/\s+/g, ' ').trim()}`}`;
}

/** The reference, one heading for each section of index.ts. */
export function apiReference(): string {
  const [, ...parts] = read('src/index.ts').split(/^\/\/ (?=[a-z ]+\n\n)/m);
  return parts
    .map((part) => {
      const title = part.split('\n', 1)[0]!;
      const all = exportsOf(part);
      const types = all.filter(({ isType }) => isType).map(typeLine);
      return [
        `## ${title[0]!.toUpperCase()}${title.slice(1)}`,
        ...all.filter(({ isType }) => !isType).map(valueText),
        ...(types.length === 0 ? [] : ['Types:', types.join('\n')]),
      ].join('\n\n');
    })
    .join('\n\n');
}
