// Makes the npm packages in build/packages: gpt2.ts itself, and one package per platform with the native library. The library
// packages are optional dependencies of gpt2.ts, so that npm installs only those for the user's machine.
//   node --import tsx scripts/build-packages.ts [linux-x64 linux-x64-cuda linux-arm64 darwin-arm64]
// Without names: all packages that this machine can build. `npm run build` and `npm run build:cuda -- --all` must have made the
// program and the libraries of this machine. Of other platforms, linux-arm64 needs g++-aarch64-linux-gnu, and darwin-arm64 needs a
// compiler for aarch64-macos: DARWIN_CXX is its command with arguments.
import { execFileSync, type StdioOptions, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { packageRoot as root } from '../src/base/package-root.ts';
import { emulatorFile, libraryFile, libraryPackages } from '../src/native/find-library.ts';

const out = join(root, 'build', 'packages');
const program = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const short = (name: string): string => name.split('/')[1]!;
const stdio: StdioOptions = ['ignore', 'pipe', 'inherit'];
const run = (command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  execFileSync(command, args, { cwd: root, encoding: 'utf8', stdio, env: { ...process.env, ...env } });
const isThere = (command: string): boolean => spawnSync(command, ['--version']).error === undefined;

type Target = (typeof libraryPackages)[string];

/** The path of a platform's library, or the reason why there is none. Cross-compiles a CPU library for another platform. */
function library(name: string, { os, cpu, kind }: Target): { path: string } | { reason: string } {
  const file = libraryFile(kind, os);
  if (kind === 'cuda' || (os === process.platform && cpu === process.arch)) {
    const path = join(root, 'build', file);
    return existsSync(path) ? { path } : { reason: `there is no build/${file}: run \`npm run build:${kind}\`` };
  }
  const compiler = os === 'darwin' ? process.env.DARWIN_CXX : 'aarch64-linux-gnu-g++';
  if (cpu !== 'arm64' || compiler === undefined || !isThere(compiler.split(' ')[0]!)) {
    return { reason: 'there is no compiler for it here' };
  }
  const folder = join('build', name);
  const target = os === 'darwin' ? ['Darwin', 'arm64'] : ['Linux', 'aarch64'];
  const settings = [`-DCMAKE_SYSTEM_NAME=${target[0]}`, `-DCMAKE_SYSTEM_PROCESSOR=${target[1]}`];
  run('cmake', ['-S', 'cuda', '-B', folder, ...settings], { CXX: compiler });
  run('scripts/cmake-build', [folder, 'gpt2-cpu']);
  return { path: join(root, folder, file) };
}

/** Packs a folder, or else the clone, into a tarball in `out`. */
function pack(...folder: string[]): { filename: string; size: number; unpackedSize: number } {
  return JSON.parse(run('npm', ['pack', '--json', '--pack-destination', out, ...folder]))[0];
}

/** Packs a folder of `out`, and prints the sizes. */
function packSized(folder: string): void {
  const { filename, size, unpackedSize } = pack(folder);
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(2)} MB`;
  console.log(`${filename}: ${megabytes(size)}, ${megabytes(unpackedSize)} installed`);
}

function empty(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
}

function writePackage(folder: string, description: object): void {
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(description, null, 2)}\n`);
}

function packLibrary(name: string, target: Target): void {
  const found = library(short(name), target);
  if ('reason' in found) {
    console.log(`${name} is left out: ${found.reason}`);
    return;
  }
  const folder = join(out, short(name));
  empty(folder);
  const file = libraryFile(target.kind, target.os);
  const files = target.kind === 'cpu' ? [file, emulatorFile] : [file];
  for (const each of files) copyFileSync(join(dirname(found.path), each), join(folder, each));
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const what = `The ${target.kind === 'cuda' ? 'CUDA' : 'CPU'} library of gpt2.ts for ${target.os} ${target.cpu}`;
  writeFileSync(join(folder, 'README.md'), `# ${name}\n\n${what}. Install gpt2.ts, which needs it.\n`);
  writePackage(folder, {
    ...{ name, version: program.version, description: what, license: program.license },
    ...{ os: [target.os], cpu: [target.cpu], ...(target.os === 'linux' ? { libc: ['glibc'] } : {}) },
    files,
  });
  packSized(folder);
}

/** Packs the program: the files that `npm pack` takes from the clone, with the libraries as optional dependencies. */
function packProgram(): void {
  if (!existsSync(join(root, 'dist/cli.js'))) throw new Error('dist/ is missing: run `npm run build:ts` first');
  const folder = join(out, 'gpt2.ts');
  empty(folder);
  run('tar', ['xzf', join(out, pack().filename), '-C', folder, '--strip-components=1']);
  const optionalDependencies = Object.fromEntries(Object.keys(libraryPackages).map((name) => [name, program.version]));
  writePackage(folder, { ...program, optionalDependencies });
  packSized(folder);
}

const known = Object.keys(libraryPackages).map(short);
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !known.includes(name));
if (unknown.length > 0) {
  console.error(`build-packages: no package ${unknown.join(', ')}; there are ${known.join(', ')}`);
  process.exit(2);
}
packProgram();
for (const [name, target] of Object.entries(libraryPackages)) {
  if (asked.length === 0 || asked.includes(short(name))) packLibrary(name, target);
}
