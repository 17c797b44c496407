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
  [...part.matchAll(/^export (type )?\{([^}]+)\} from '([^']+)';/gm)].flatMap(([, ofAll, names, from]) => {
    const file = normalize(join('src', from!));
    return [...names!.matchAll(/(type )?(\w+)/g)].map(([, type = ofAll, name = '']) => ({
      name,
      isType: !!type,
      file,
    }));
  });

/** The file that defines the name: `file` or, if `file` only re-exports the name, the file it imports from. */
function definingFile({ name, file }: Exported): string {
  const passedOn = new RegExp(`import[^;]*\\b${name}\\b[^;]* from '([^']+)';[\\s\\S]*export type \\{ ${name} \\}`);
  const from = passedOn.exec(read(file))?.[1];
  return from ? normalize(join(file, '..', from)) : file;
}

/** The comment of a name's definition without its marks, and the text after it. @throws Error if there is no definition */
function definitionOf(exported: Exported): { comment: string; text: string } {
  const file = definingFile(exported);
  const kinds = '(?:async )?(?:function\\*?|const|class|interface|type)';
  const definition = `(?:/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\n)?(export ${kinds} ${exported.name}\\b[\\s\\S]*)`;
  const [, comment = '', text] = new RegExp(definition).exec(read(file)) ?? [];
  if (text === undefined) throw new Error(`src/index.ts: ${file} does not define ${exported.name}`);
  return { comment: comment.replaceAll(/^ +\* ?/gm, '').trim(), text };
}

/** A declaration in one line, without its body. */
function signatureOf(text: string): string {
  const head =
    /^export class [^{]+|^export (?:async )?function[\s\S]*?\)(?:: [^\n]+)?(?= \{\n)|^export const [\s\S]*?(?= =>)/;
  return (head.exec(text)?.[0] ?? '')
    .replace(/^export /, '')
    .replaceAll(/,?\n\s*(?=[)}])/g, '')
    .replaceAll(/\(\n\s*/g, '(')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

function valueText(exported: Exported): string {
  const { comment, text } = definitionOf(exported);
  const [what = '', ...tags] = comment.split(/^@|(?<= )@(?=param|throws|example)/m).map((part) => part.trim());
  const textsOf = (name: string) =>
    tags.flatMap((each) => (each.split(/\s/, 1)[0] === name ? [each.slice(name.length).trim()] : []));
  const params = textsOf('param').map((each) => each.replace(/^(\w+)\s+/, '- `$1`: '));
  const [[throws], [example]] = [textsOf('throws'), textsOf('example')];
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
