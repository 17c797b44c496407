// Every value of the public API has an @example at its definition. All of them compile as one program, which then runs.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { loader, root } from '../support/built.ts';
import { tinyModel, workplace } from '../support/cli.ts';
import { randomQuestions } from '../support/questions.ts';

const source = join(root, 'src');

/** The exported values and the files that define them. */
const values = [
  ...readFileSync(join(source, 'index.ts'), 'utf8').matchAll(/^export \{([^}]+)\} from '([^']+)'/gm),
].flatMap(([, names, file]) =>
  names!
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && !name.startsWith('type '))
    .map((name) => ({ name, file: join(source, file!) })),
);

function exampleOf({ name, file }: { name: string; file: string }): string {
  const definition = new RegExp(
    `/\\*\\*((?:(?!\\*/)[^])*)\\*/\\nexport (?:async )?(?:function\\*?|const|class) ${name}\\b`,
  );
  const comment = definition.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
  const [, example = ''] = comment.replaceAll(/^ \* ?/gm, '').split('@example');
  return example.split(/^@/m)[0]!.trim();
}

/** Names that examples take from other examples, on small data. */
const preamble = `
const [error, config] = [new UsageError('wrong') as unknown, presetConfig('d6')!];
using device = Device.open({ kind: 'cpu' });
const model = createModel(device, resolveCheckpoint('runs/first').manifest.model, { B: 4, T: 64, purpose: 'training' });
using loader = openLoader({
  ...{ shards: findShards('data/tinyshakespeare', 'train'), batch: 4, sequence: 64, order: 'llmc', seed: 42 },
  vocabularySize: 50257,
});
const optimizer = new AdamW({ weightDecay: 0.1 });
const trainer = new Trainer(model, { batch: 4, sequence: 64, accumulation: 1, optimizer, gradientClip: 1 });
`;

const place = workplace();
beforeAll(() => {
  const examples = values.map((value) => {
    const example = exampleOf(value);
    // `gpu` is a device of kind cuda: test/gpu runs what it is for.
    const begin = /\bgpu\b/.test(example) ? 'void (async (gpu: Device) => {' : '{';
    return `${begin} // ${value.name}\n${example}\n}${begin === '{' ? '' : ')'};\n`;
  });
  const imports = `import { ${values.map(({ name }) => name).join(', ')} } from 'gpt2.ts';\n`;
  place.file('examples.ts', `${imports}${preamble}${examples.join('')}process.exitCode = 0;\n`);
  place.file('package.json', '{ "type": "module" }');
  const compilerOptions = {
    ...{ noUnusedLocals: false, types: ['node'], typeRoots: [join(root, 'node_modules/@types')] },
    paths: { 'gpt2.ts': [join(source, 'index.ts')] },
  };
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: ['examples.ts'], exclude: [] };
  place.file('tsconfig.json', JSON.stringify(config));
});

const node = (...args: string[]) =>
  spawnSync(process.execPath, args, { cwd: place.folder, encoding: 'utf8', env: { ...process.env, NO_COLOR: '1' } });

it.each(values.map((value) => [value.name, value] as const))('%s has an example', (name, value) => {
  expect(exampleOf(value)).toContain(name);
});

it('examples compile', () => {
  const { stdout, stderr } = node(join(root, 'node_modules/typescript/bin/tsc'), '-p', '.');
  expect(stdout + stderr).toBe('');
});

it('examples run', () => {
  place.data({ name: 'data/tinyshakespeare', vocabulary: 50257 });
  mkdirSync(place.path('data/hellaswag'));
  writeQuestions(place.path('data/hellaswag/hellaswag_val.bin'), randomQuestions(2, { vocabulary: 50257 }));
  place.file('books/one.txt', 'But soft, what light through yonder window breaks?\n'.repeat(100));
  const options = '--data data/tinyshakespeare --out runs/first --steps 2 --batch 2 --seq 32 --val-every 0';
  place.ok(`train ${options} ${tinyModel.join(' ')}`);
  const { status, stdout, stderr } = node('--import', loader, 'examples.ts');
  expect(status, stderr).toBe(0);
  expect(stdout).toContain('Hello world');
});
