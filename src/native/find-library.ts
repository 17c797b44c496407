// Finds a native library: the file that GPT2_LIBRARY names, else a file in build/, else a file of this platform's npm package.
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { orElse } from '../base/errors.ts';
import { packageRoot } from '../base/package-root.ts';
import { isInstalled } from '../base/wording.ts';

/** The native library for CPUs, or the native library for NVIDIA GPUs. */
export type LibraryKind = 'cpu' | 'cuda';

const here = {
  root: packageRoot,
  platform: process.platform as string,
  arch: process.arch as string,
  /** Whether `root` is an installed package, not a git clone. */
  installed: isInstalled,
};
export type Place = Readonly<typeof here>;

/** The npm packages that contain a native library, by name; scripts/build-packages.ts makes the packages. */
export const libraryPackages: Readonly<Record<string, { os: string; cpu: string; kind: LibraryKind }>> = {
  '@gpt2.ts/linux-x64': { os: 'linux', cpu: 'x64', kind: 'cpu' },
  '@gpt2.ts/linux-x64-cuda': { os: 'linux', cpu: 'x64', kind: 'cuda' },
  '@gpt2.ts/linux-arm64': { os: 'linux', cpu: 'arm64', kind: 'cpu' },
  '@gpt2.ts/darwin-arm64': { os: 'darwin', cpu: 'arm64', kind: 'cpu' },
};

const packageFor = (wanted: LibraryKind, { platform, arch }: Place): string | undefined =>
  Object.entries(libraryPackages).find(
    ([, { os, cpu, kind }]) => os === platform && cpu === arch && kind === wanted,
  )?.[0];

/** File name of a library: "libgpt2-cpu.so", on macOS "libgpt2-cpu.dylib". */
export const libraryFile = (kind: LibraryKind, platform: string = process.platform): string =>
  `libgpt2-${kind}.${platform === 'darwin' ? 'dylib' : 'so'}`;

/** Path of a library. If the library is missing, the path where a build would put it. */
export function libraryPath(kind: LibraryKind, place: Place = here): string {
  const path = process.env.GPT2_LIBRARY;
  if (path) return resolve(path);
  const file = libraryFile(kind, place.platform);
  const built = join(place.root, 'build', file);
  return existsSync(built) ? built : (packaged(kind, file, place) ?? built);
}

/** The CUDA emulator, a static library that is linked to programs with CUDA kernels so that they run on a CPU. */
export const emulatorFile = 'libgpt2-emulator.a';

/** Path of a file in the npm package for this platform; undefined if it is not installed. */
export function packaged(kind: LibraryKind, file: string, place: Place = here): string | undefined {
  const name = packageFor(kind, place);
  if (name === undefined) return undefined;
  return orElse(undefined, () => createRequire(join(place.root, 'package.json')).resolve(`${name}/${file}`));
}

/** Advice for the message about a library that is missing or does not work. */
export function libraryFix(kind: LibraryKind, place: Place = here): string {
  if (process.env.GPT2_LIBRARY) return 'correct or unset GPT2_LIBRARY';
  const name = packageFor(kind, place);
  const build = `run \`npm run build:${kind}\``;
  if (!place.installed || name === undefined) return build;
  const { version } = JSON.parse(readFileSync(join(place.root, 'package.json'), 'utf8')) as { version: string };
  const tarball = `${name.slice(1).replace('/', '-')}-${version}.tgz`;
  return `run \`npm install ./${tarball}\`, which scripts/build-packages.ts makes in a clone, or ${build}`;
}
