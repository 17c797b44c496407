// Builds record.cpp with the CUPTI of $CUPTI_ROOT, of a CUDA toolkit, or of NVIDIA's Python packages.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const headerFolders = ['include', 'extras/CUPTI/include', 'targets/x86_64-linux/include'];
const libraryFolders = ['lib64', 'lib', 'extras/CUPTI/lib64', 'targets/x86_64-linux/lib'];

const entries = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder).sort() : []);

/** Folders that may hold a CUDA toolkit or a part of one. */
function roots(): string[] {
  const { CUPTI_ROOT, PATH = '' } = process.env;
  const compilers = PATH.split(':').map((folder) => join(folder, 'nvcc'));
  let packages: string[] = [];
  try {
    const print = 'import sys; print("\\n".join(path for path in sys.path if path))';
    packages = execFileSync('python3', ['-c', print], { encoding: 'utf8' }).trim().split('\n');
  } catch {
    // Python is not installed.
  }
  return [
    ...(CUPTI_ROOT ? [CUPTI_ROOT] : []),
    ...compilers.filter((path) => existsSync(path)).map((path) => dirname(dirname(realpathSync(path)))),
    ...entries('/usr/local').flatMap((name) => (name.startsWith('cuda') ? [join('/usr/local', name)] : [])),
    ...packages.map((path) => join(path, 'nvidia')).flatMap((path) => entries(path).map((name) => join(path, name))),
  ];
}

/** The folders of cupti.h and of cuda.h, which it includes, and CUPTI's library. */
function findCupti(): { headers: string[]; library: string } {
  const places = roots();
  const withFile = (root: string, file: string) =>
    headerFolders.map((folder) => join(root, folder)).filter((folder) => existsSync(join(folder, file)));
  const librariesOf = (root: string) =>
    libraryFolders.flatMap((folder) =>
      entries(join(root, folder))
        .filter((name) => /^libcupti\.so(\.\d+)?$/.test(name))
        .map((name) => join(root, folder, name)),
    );
  // Prefer both from one place, where they have the same version.
  const whole = places.filter((root) => withFile(root, 'cupti.h').length > 0 && librariesOf(root).length > 0);
  const [header] = [...whole, ...places].flatMap((root) => withFile(root, 'cupti.h'));
  const [library] = [...whole, ...places].flatMap(librariesOf);
  const [cuda] = [...whole, ...places].flatMap((root) => withFile(root, 'cuda.h'));
  if (!header || !library || !cuda) {
    const missing = !header ? 'cupti.h' : !library ? 'libcupti.so' : 'cuda.h';
    throw new Error(`no ${missing} in ${places.join(', ')}: set CUPTI_ROOT to a folder with include/ and lib64/`);
  }
  return { headers: [...new Set([header, cuda])], library };
}

/** Compiles the recorder into a folder and returns the library's path. */
export function buildRecorder(folder: string): string {
  const { headers, library } = findCupti();
  const recorder = join(folder, 'librecord.so');
  mkdirSync(folder, { recursive: true });
  execFileSync(
    process.env.CXX || 'c++',
    [
      ...['-std=c++17', '-O2', '-Wall', '-Wextra', '-fPIC', '-shared', '-Wl,--no-undefined', '-o', recorder],
      ...headers.flatMap((path) => ['-isystem', path]),
      ...[fileURLToPath(new URL('record.cpp', import.meta.url)), library, `-Wl,-rpath,${dirname(library)}`],
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  return recorder;
}
