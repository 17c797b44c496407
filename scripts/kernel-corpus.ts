// Compiles and runs every .cu file below a folder on the CPU, as `gpt2 kernel run` does, and prints a row for each. The first
// folder below FOLDER is the file's repository: its folders include, inc, common and src are searched by #include, and if functions are missing,
// the files beside it without a main are linked.
//   node --import tsx scripts/kernel-corpus.ts FOLDER [SECONDS [LIST]]
// SECONDS: the time limit of a program (60). LIST: a file with the paths to run.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { compiledProgram } from '../src/ops/kernels/compile.ts';

const [folder = '.', seconds = '60', list] = process.argv.slice(2);
const root = resolve(folder);
const all = readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
const listed =
  list &&
  readFileSync(list, 'utf8')
    .trim()
    .split('\n')
    .map((path) => relative(root, resolve(path)));
const counts = { compiled: 0, ended: 0, printed: 0 };
for (const file of listed ?? all.filter((name) => name.endsWith('.cu'))) {
  const repository = `${file.split('/')[0]}/`;
  const headers = all.filter(
    (name) => name.startsWith(repository) && /(^|\/)(include|inc|common|src)\/[^/]*$/i.test(name),
  );
  const includes = [...new Set(headers.map((name) => join(root, dirname(name))))].slice(0, 30);
  const beside = all.filter(
    (name) => /\.(cu|cpp|c)$/.test(name) && name !== file && name.startsWith(`${dirname(file)}/`),
  );
  const others = beside.filter((name) => !/\bmain\s*\(|torch\//.test(readFileSync(join(root, name), 'utf8')));
  const compile = (files: readonly string[]) =>
    compiledProgram({ files: files.map((name) => join(root, name)), includes }, 'cpu').program;
  let row: string[];
  try {
    let program: string | undefined;
    try {
      program = compile([file]);
    } catch (error) {
      if (others.length === 0 || !/undefined reference/.test((error as Error).message)) throw error;
      program = compile([file, ...others]);
    }
    counts.compiled++;
    const start = performance.now();
    const cwd = join(root, dirname(file));
    const options = { cwd, timeout: Number(seconds) * 1000, killSignal: 'SIGKILL', maxBuffer: 1 << 28 } as const;
    const ran = program ? spawnSync(program, [], options) : undefined;
    const time = (performance.now() - start) / 1000;
    const hasEnded = !ran?.error;
    if (hasEnded) counts.ended++;
    if (hasEnded && (!ran || ran.stdout.length > 0)) counts.printed++;
    const said = ran ? `${ran.stderr}`.split('\n').filter((line) => /^(defect|warning):/.test(line)) : ['no main'];
    const code = ran ? String(ran.status ?? ran.signal) : '';
    row = [
      'compiled',
      hasEnded ? `${time.toFixed(1)} s` : 'late',
      code,
      `${ran ? ran.stdout.length : 0} bytes`,
      said[0] ?? '',
    ];
  } catch (error) {
    row = ['refused', '', '', '', (error as Error).message.split('\n')[0]!];
  }
  console.log([file, ...row].join(' | '));
}
console.log(
  `compiled ${counts.compiled}, ended within ${seconds} s ${counts.ended}, of which printed ${counts.printed}`,
);
