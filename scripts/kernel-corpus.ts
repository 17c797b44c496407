// Compiles and runs .cu files below FOLDER, as `gpt2 kernel run` does, by default on the CPU, and prints a row for each. A file's
// first folder below FOLDER is its repository: #include searches the repository's folders include, inc, common and src. If
// functions are missing, the sources without a main in and below the file's folder are linked.
//   node --import tsx scripts/kernel-corpus.ts FOLDER [--seconds 60] [--device cuda] [--out FOLDER] [FILE…]
// FILE: a file below FOLDER; default: all. --seconds: the time limit of a program; with 0, files are only compiled. --out: a folder
// for the output of each program.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { compiledProgram, programEnvironment } from '../src/ops/kernels/compile.ts';
import { readFlags } from './flags.ts';

const { positionals, ...flags } = readFlags({ seconds: 60, device: 'cpu', out: '' });
const [folder = '.', ...files] = positionals;
const root = resolve(folder);
const device = flags.device === 'cuda' ? 'cuda' : 'cpu';
const all = readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
const counts: Record<string, number> = {};

function program(file: string): string | undefined {
  const inRepository = all.filter((name) => name.startsWith(`${file.split('/')[0]}/`));
  const headers = inRepository.filter((name) => /(^|\/)(include|inc|common|src)\/[^/]*$/i.test(name));
  const includes = [...new Set(headers.map((name) => join(root, dirname(name))))];
  const compile = (files: readonly string[]) =>
    compiledProgram({ files: files.map((name) => join(root, name)), includes }, device);
  try {
    return compile([file]);
  } catch (error) {
    const beside = inRepository.filter((name) => /\.(cu|cpp|c)$/.test(name) && name.startsWith(`${dirname(file)}/`));
    const others = beside.filter((name) => !/\bmain\s*\(/.test(readFileSync(join(root, name), 'utf8')));
    if (others.length === 0 || !/undefined reference/.test((error as Error).message)) throw error;
    return compile([file, ...others.filter((name) => name !== file)]);
  }
}

/** Runs a program. @returns cells of its row: exit code or signal, time, bytes of output, first reported defect or warning */
function run(path: string, file: string): string[] {
  const begin = performance.now();
  const limit = { timeout: flags.seconds * 1000, killSignal: 'SIGKILL', maxBuffer: 64 << 20 } as const;
  const { error, status, signal, stdout, stderr } = spawnSync(path, [], {
    cwd: join(root, dirname(file)),
    env: programEnvironment('sampled'),
    ...limit,
  });
  if (flags.out !== '') {
    mkdirSync(flags.out, { recursive: true });
    const out = join(flags.out, file.replaceAll('/', '%'));
    writeFileSync(`${out}.${device}`, stdout);
    writeFileSync(`${out}.${device}.err`, `${stderr}exit ${status ?? signal}\n`);
  }
  const what = error ? 'late' : `exit ${status ?? signal}`;
  const took = `${((performance.now() - begin) / 1000).toFixed(1)} s`;
  return [what, took, `${stdout.length} bytes`, /^(defect|warning): .*/m.exec(`${stderr}`)?.[0] ?? ''];
}

for (const file of files.length > 0 ? files : all.filter((name) => name.endsWith('.cu'))) {
  let row: string[];
  try {
    const path = program(file);
    row = path === undefined ? ['no main'] : flags.seconds === 0 ? ['compiled'] : run(path, file);
  } catch (error) {
    row = ['refused', '', '', (error as Error).message.split('\n')[0]!];
  }
  counts[row[0]!] = (counts[row[0]!] ?? 0) + 1;
  console.log([file, ...row].join(' | '));
}
if (files.length !== 1) console.log(counts);
