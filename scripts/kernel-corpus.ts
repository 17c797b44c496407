// Compiles and runs every .cu file below a folder on the CPU, as `gpt2 kernel run` does, and prints a row for each. The first
// folder below FOLDER is the file's repository, whose folders include, inc, common and src #include searches; if functions are
// missing, the files beside it without a main are linked.
//   node --import tsx scripts/kernel-corpus.ts FOLDER [SECONDS]
// SECONDS: the time limit of a program (60).
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { compiledProgram } from '../src/ops/kernels/compile.ts';

const [folder = '.', seconds = '60'] = process.argv.slice(2);
const root = resolve(folder);
const all = readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
const counts: Record<string, number> = {};

function program(file: string): string | undefined {
  const inRepository = all.filter((name) => name.startsWith(`${file.split('/')[0]}/`));
  const headers = inRepository.filter((name) => /(^|\/)(include|inc|common|src)\/[^/]*$/i.test(name));
  const includes = [...new Set(headers.map((name) => join(root, dirname(name))))];
  const compile = (files: readonly string[]) =>
    compiledProgram({ files: files.map((name) => join(root, name)), includes }, 'cpu').program;
  try {
    return compile([file]);
  } catch (error) {
    const beside = inRepository.filter((name) => /\.(cu|cpp|c)$/.test(name) && name.startsWith(`${dirname(file)}/`));
    const others = beside.filter((name) => !/\bmain\s*\(/.test(readFileSync(join(root, name), 'utf8')));
    if (others.length === 0 || !/undefined reference/.test((error as Error).message)) throw error;
    return compile([file, ...others.filter((name) => name !== file)]);
  }
}

for (const file of all.filter((name) => name.endsWith('.cu'))) {
  let [what, said, output] = ['refused', '', ''];
  try {
    const path = program(file);
    const cwd = join(root, dirname(file));
    const ran = path && spawnSync(path, [], { cwd, timeout: Number(seconds) * 1000, killSignal: 'SIGKILL' });
    what = !ran ? 'no main' : ran.error ? 'late' : `exit ${ran.status ?? ran.signal}`;
    if (ran) output = `${ran.stdout.length} bytes`;
    if (ran) said = /^(defect|warning): .*/m.exec(`${ran.stderr}`)?.[0] ?? '';
  } catch (error) {
    said = (error as Error).message.split('\n')[0]!;
  }
  counts[what] = (counts[what] ?? 0) + 1;
  console.log([file, what, output, said].join(' | '));
}
console.log(counts);
