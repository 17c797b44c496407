// Makes the npm packages in build/packages: gpt2.ts itself, and one package per platform with the native library, which gpt2.ts
// names as an optional dependency, so that npm installs only those of the machine.
//   node --import tsx scripts/build-packages.ts [linux-x64 linux-x64-cuda linux-arm64 darwin-arm64]
// Without names: all that can be built here. linux-arm64 needs g++-aarch64-linux-gnu where the machine is another, darwin-arm64 a
// Mac or DARWIN_CXX, a compiler for aarch64-macos with its arguments. The CUDA library is that of build/ (npm run build:cuda -- --all).
// Build the program first (npm run build:ts).
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { libraryFile, libraryPackages } from '../src/native/find-library.ts';
import { packageRoot as root } from '../src/package-root.ts';

const out = join(root, 'build', 'packages');
const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const short = (name: string): string => name.split('/')[1]!;
const run = (command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  execFileSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
const isThere = (command: string): boolean => spawnSync(command, ['--version']).status === 0;

type Target = (typeof libraryPackages)[string];

/** The compiler for a platform; undefined: there is none here. */
function compilerFor({ os, cpu }: Target): string | undefined {
  if (os === process.platform && cpu === process.arch) return process.env.CXX ?? 'c++';
  const cross = os === 'darwin' ? process.env.DARWIN_CXX : 'aarch64-linux-gnu-g++';
  return cross !== undefined && isThere(cross.split(' ')[0]!) ? cross : undefined;
}

/** Builds the library of a platform, or finds it. @returns its path, or why there is none */
function library(name: string, target: Target): { path: string } | { reason: string } {
  const file = libraryFile(target.kind, target.os);
  if (target.kind === 'cuda') {
    const path = join(root, 'build', file);
    return existsSync(path) ? { path } : { reason: `there is no build/${file}: run \`npm run build:cuda -- --all\`` };
  }
  const compiler = compilerFor(target);
  if (compiler === undefined) return { reason: 'no compiler for it here' };
  const folder = join('build', name);
  const system = target.os === 'darwin' ? 'Darwin' : 'Linux';
  const processor = target.cpu === 'x64' ? 'x86_64' : target.os === 'darwin' ? 'arm64' : 'aarch64';
  // Without cross-compiling flags CMake takes the machine's own system.
  const isCross = target.os !== process.platform || target.cpu !== process.arch;
  const cross = isCross ? [`-DCMAKE_SYSTEM_NAME=${system}`, `-DCMAKE_SYSTEM_PROCESSOR=${processor}`] : [];
  // The C++ runtime goes into the library, so that it runs on systems with an older one.
  const LDFLAGS = target.os === 'linux' ? '-static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -s' : '';
  run('cmake', ['-S', 'cuda', '-B', folder, ...cross], { CXX: compiler, LDFLAGS });
  run('cmake', ['--build', folder, '--parallel', '--target', 'gpt2-cpu']);
  return { path: join(root, folder, file) };
}

/** Packs a folder of `out`. @returns the tarball */
function pack(folder: string): string {
  const [{ filename, size, unpackedSize }] = JSON.parse(
    run('npm', ['pack', '--json', '--pack-destination', out, folder]),
  );
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(2)} MB`;
  console.log(`${filename}: ${megabytes(size)}, ${megabytes(unpackedSize)} installed`);
  return join(out, filename);
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
  mkdirSync(folder, { recursive: true });
  const file = libraryFile(target.kind, target.os);
  copyFileSync(found.path, join(folder, file));
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const what = `The ${target.kind === 'cuda' ? 'CUDA' : 'CPU'} library of gpt2.ts for ${target.os} ${target.cpu}`;
  writeFileSync(join(folder, 'README.md'), `# ${name}\n\n${what}. Install gpt2.ts, which needs it.\n`);
  writePackage(folder, {
    ...{ name, version: own.version, description: what, license: own.license },
    ...{ os: [target.os], cpu: [target.cpu], ...(target.os === 'linux' ? { libc: ['glibc'] } : {}) },
    files: [file],
  });
  pack(folder);
}

/** The program: what `npm pack` takes from the clone, with the libraries as optional dependencies. */
function packProgram(): void {
  if (!existsSync(join(root, 'dist/cli.js'))) throw new Error('dist/ is missing: run `npm run build:ts` first');
  const folder = join(out, 'gpt2.ts');
  const [{ filename }] = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', out]));
  mkdirSync(folder, { recursive: true });
  run('tar', ['xzf', join(out, filename), '-C', folder, '--strip-components=1']);
  const optionalDependencies = Object.fromEntries(Object.keys(libraryPackages).map((name) => [name, own.version]));
  writePackage(folder, { ...own, optionalDependencies });
  pack(folder);
}

const known = Object.keys(libraryPackages).map(short);
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !known.includes(name));
if (unknown.length > 0) {
  console.error(`build-packages: no package ${unknown.join(', ')}; there are ${known.join(', ')}`);
  process.exit(2);
}
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
packProgram();
for (const [name, target] of Object.entries(libraryPackages)) {
  if (asked.length === 0 || asked.includes(short(name))) packLibrary(name, target);
}
