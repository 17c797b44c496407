// `kernel new`: makes a folder with the course's naive kernels for some ops, from which the user writes faster kernels.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { explained, Gpt2Error } from '../base/errors.ts';
import { makeFolder } from '../base/files/make-folder.ts';
import { packageRoot } from '../base/package-root.ts';
import { variantNamed } from '../ops/variants.ts';

const course = join(packageRoot, 'kernels/course');

/** The cards of the course's naive kernels, chapter by chapter, as source text. */
export function naiveKernels() {
  const folders = readdirSync(course).map((chapter) => join(course, chapter, '1-naive'));
  return folders.filter(existsSync).flatMap((folder) => {
    const text = readFileSync(join(folder, 'card.ts'), 'utf8');
    return [...text.matchAll(/^ {2}defineKernel\(\{\n[\s\S]*?^ {2}\}\),\n/gm)].map(([card]) => ({
      op: /^ {4}op: '([^']+)'/m.exec(card)![1]!,
      /** The card's call of defineKernel, as text. */
      card,
      kernels: [...card.matchAll(/kernel: '(\w+)'/g)].map(([, kernel]) => kernel!),
      /** Path of the .cu file. */
      source: join(folder, /^ {4}source: '([^']+)'/m.exec(card)![1]!),
    }));
  });
}

/** Matches a kernel's definition and the comment before it. */
const definition = /(?:^\/\/.*\n)*^__global__ void (\w+)\([\s\S]*?^\}\n/gm;

/**
 * Writes a folder with naive kernels for the ops, their cards and a README.
 * @returns the paths of the written files
 * @throws UsageError for an unknown op; Gpt2Error if an op has no naive kernel, or if the folder exists or cannot be made
 */
export function newKernel(folder: string, ops: readonly string[]): string[] {
  const known = naiveKernels();
  const chosen = [...new Set(ops)].map((op) => {
    variantNamed(op);
    const found = known.find((naive) => naive.op === op);
    if (found) return found;
    const names = known.map((naive) => naive.op).join(', ');
    throw new Gpt2Error(`there is no naive kernel of ${op} to start from: name one of ${names}`);
  });
  const kernels = new Set(chosen.flatMap((naive) => naive.kernels));
  const cards = chosen.map(({ card }) => card).join('');
  const files = new Map([['card.ts', `import { defineKernel } from 'gpt2.ts';\n\nexport default [\n${cards}];\n`]]);
  for (const { source } of chosen) {
    const text = readFileSync(source, 'utf8');
    const kept = text.replaceAll(definition, (all, name: string) => (kernels.has(name) ? all : ''));
    files.set(basename(source), `${kept.replaceAll(/\n{3,}/g, '\n\n').trimEnd()}\n`);
  }
  files.set('README.md', readme(folder, chosen));
  explained(`cannot make the folder ${folder}`, 'name another one', () => {
    if (existsSync(folder)) throw new Error('it exists, and nothing is overwritten');
    makeFolder(dirname(folder));
    mkdirSync(folder);
  });
  return [...files].map(([name, text]) => {
    const path = join(folder, name);
    writeFileSync(path, text, { flag: 'wx' });
    return path;
  });
}

function readme(folder: string, chosen: ReturnType<typeof naiveKernels>): string {
  const formulas = chosen.map(({ op }) => `\`${op}\`: ${variantNamed(op).op.formula}.`).join(' ');
  const sources = [...new Set(chosen.map(({ source }) => `\`${basename(source)}\``))].join(', ');
  return `# ${basename(folder)}

${formulas}
The kernels are in ${sources}; \`card.ts\` says how they are launched. \`npx gpt2 kernel watch ${folder}\` tests and times every save.
\`npx gpt2 train --kernel ${folder}\` trains with them.
`;
}
