// Compiles CUDA source for GPUs: kernels to a cubin or PTX by NVRTC if it is found, else by nvcc; programs by nvcc.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { CompileError, Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { findNvrtc, toolkits } from '../../native/nvrtc.ts';
import { TemporaryFolder } from '../../native/temporary-folder.ts';
import { includedFiles } from './includes.ts';

export interface Source {
  readonly text: string;
  readonly name: string;
  /** Folders that #include searches. */
  readonly includes: readonly string[];
  readonly defines: Readonly<Record<string, string | number>>;
  /** Instances of kernel templates to compile: "scale<float, 256>". */
  readonly instantiate: readonly string[];
  /** Compute capability of the GPU, "9.0", or "cpu". */
  readonly target: string;
}

/** A cubin, PTX, or the messages that the compiler prints. */
type CompilerOutput = 'cubin' | 'ptx' | 'log';

export interface Compiler {
  /** Name and version: "NVRTC 13.0". */
  readonly name: string;
  /** JSON that differs between compilers and their versions, for the cache key of compiled files. */
  readonly identity: unknown;
  /** @throws CompileError with the compiler's messages */
  compile(source: Source, output: CompilerOutput): Buffer;
}

/** The compiler for CUDA. @throws Gpt2Error with advice if there is none; otherwise as `anyCompiler` */
export function findCompiler(): Compiler {
  const found = anyCompiler();
  if (found) return found;
  throw gpt2Error`there is no compiler for CUDA: install one (pip install nvidia-cuda-nvrtc, or the CUDA toolkit), or name a libnvrtc.so in GPT2_NVRTC_LIB`;
}

/** The compiler for CUDA; undefined if there is none. @throws Gpt2Error if the library that GPT2_NVRTC_LIB names cannot be used */
export function anyCompiler(): Compiler | undefined {
  const nvrtc = findNvrtc();
  if (nvrtc) {
    const { path, version, headers } = nvrtc;
    return {
      name: `NVRTC ${version}`,
      identity: [placeOf(path), version, headers],
      compile: (source, output) => {
        // With -default-device, NVRTC accepts functions of headers that lack __device__, and compiles these functions for the device.
        const options = [...optionsOf(source, output), '-default-device', ...(headers ? [`-I${headers}`] : [])];
        const result = nvrtc.compile(withoutLinkage(source.text), source.name, options, source.instantiate, output);
        if (typeof result !== 'string') return result;
        throw refused(result, source, `NVRTC ${version}`);
      },
    };
  }
  const nvcc = findNvcc();
  return nvcc && { ...nvcc, compile: (...what) => byNvcc(nvcc.program, nvcc.version, ...what) };
}

/** The nvcc of a CUDA toolkit, else the nvcc in PATH; undefined if there is none. */
export function findNvcc(): { program: string; version: string; name: string; identity: unknown } | undefined {
  for (const program of [...toolkits().map((root) => join(root, 'bin/nvcc')), 'nvcc']) {
    const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' });
    const version = /release (\d+\.\d+)/.exec(stdout ?? '')?.[1];
    if (status !== 0 || !version) continue;
    return { program, version, name: `nvcc ${version}`, identity: [placeOf(program), stdout] };
  }
  return undefined;
}

/** An #include of a CUDA library's header. Group 1 is the library to link: cublas for cublas_v2.h and cublasXt.h. */
const library =
  /#\s*include\s*[<"](cublas(?:Lt)?|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|cuda)(?:_v2|Xt|Dn|Sp|Mg)?\.h/g;

/** The texts of source files and of all files that they include. */
const textsOf = (sources: readonly Source[]): string[] =>
  sources.flatMap(({ text, includes }) => [text, ...includedFiles(text, includes[0]!, includes).values()]);

/** The host compiler's flags for OpenMP and vector instructions, if the sources include headers that need them. */
export function hostFlags(sources: readonly Source[]): string[] {
  const texts = textsOf(sources);
  return Object.entries({ omp: '-fopenmp', '(?:imm|x86)intrin': '-march=native' })
    .filter(([name]) => texts.some((text) => new RegExp(`#\\s*include\\s*[<"]${name}\\.h[>"]`).test(text)))
    .map(([, flag]) => flag);
}

/** Compiles files with host code and kernels to a program for this machine's GPUs. @throws CompileError with nvcc's messages */
export function nvccProgram(program: string, sources: readonly Source[], hasMain: boolean, added: string): Buffer {
  using folder = new TemporaryFolder('program');
  const out = join(folder.path, 'program');
  const [{ includes, defines }] = sources as [Source];
  const libraries = new Set(
    textsOf(sources).flatMap((text) => [...text.matchAll(library)].map(([, name]) => `-l${name}`)),
  );
  const args = [
    ...['-arch=native', '-lineinfo', '-std=c++17', ...(hasMain ? [] : ['-shared', '-Xcompiler=-fPIC']), '-o', out],
    ...includes.map((path) => `-I${path}`),
    ...Object.entries(defines).map(([name, value]) => `-D${name}=${value}`),
    ...hostFlags(sources).map((flag) => `-Xcompiler=${flag}`),
    ...sources.map(({ name }, index) =>
      added === '' ? name : withAdded(join(folder.path, `${index}.cu`), name, added),
    ),
    ...libraries,
  ];
  refuseExpanded([program, ...args]);
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 64 << 20 });
  if (status === 0) return readFileSync(out);
  throw new CompileError(
    stderr.replaceAll(/^(.+)\((\d+)\): /gm, '$1:$2: ').trim() || `${program} failed without a message`,
  );
}

function withAdded(path: string, name: string, added: string): string {
  writeFileSync(path, `#include ${JSON.stringify(resolve(name))}\n${added}`);
  return path;
}

/** Identifies a version of a library, or of a program in PATH, by path, size and time of change. */
export function placeOf(name: string): unknown {
  const folders = name.includes('/') ? [''] : (process.env.PATH ?? '').split(':');
  const path = folders.map((folder) => resolve(folder, name)).find((each) => existsSync(each));
  if (path === undefined) return name;
  const { size, mtimeMs } = statSync(path);
  return [realpathSync(path), size, mtimeMs];
}

/** The compiler's -arch. From 9.0 on it is sm_90a or similar: "a" adds instructions, for code that runs on one architecture only. */
const architectureOf = (target: string): string => {
  const number = Number(target.replace('.', ''));
  return `sm_${number}${number >= 90 ? 'a' : ''}`;
};

const optionsOf = ({ target, includes, defines }: Source, output: CompilerOutput): string[] => [
  `-arch=${architectureOf(target)}`,
  '-std=c++17',
  '-lineinfo',
  // Makes the compiler print registers, memory and spills of each kernel.
  ...(output === 'log' ? ['--ptxas-options=-v'] : []),
  ...includes.map((folder) => `-I${folder}`),
  ...Object.entries(defines).map(([name, value]) => `-D${name}=${value}`),
];

function byNvcc(program: string, version: string, source: Source, output: CompilerOutput): Buffer {
  using folder = new TemporaryFolder('kernel');
  const [file, out] = [join(folder.path, basename(source.name)), join(folder.path, 'out')];
  const args = [output === 'ptx' ? '-ptx' : '-cubin', ...optionsOf(source, output), '-o', out, file];
  refuseExpanded([program, ...args]);
  const kernels = source.instantiate.map((kernel, index) => `\n__device__ auto *gpt2_use_${index} = &${kernel};`);
  const line = `#line 1 ${JSON.stringify(source.name)}\n`;
  writeFileSync(file, `${line}${withoutLinkage(source.text)}${kernels.join('')}\n`);
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 64 << 20 });
  if (error) throw new Gpt2Error(`nvcc ${version} cannot be run: ${error.message}`, { cause: error });
  if (status === 0) return output === 'log' ? Buffer.from(stderr) : readFileSync(out);
  throw refused(stderr, source, `nvcc ${version}`);
}

/** @throws Gpt2Error for an argument with ` or $, which a shell would expand: nvcc (13.0) passes arguments in double quotes to a shell */
function refuseExpanded(args: readonly string[]): void {
  const found = args.find((arg) => /[`$]/.test(arg));
  if (found === undefined) return;
  const [, value] = /^-[ID](.*)$/s.exec(found) ?? [];
  const what = found.startsWith('-D') ? 'the macro' : 'the path';
  throw gpt2Error`nvcc cannot take ${what} ${JSON.stringify(value ?? found)}: it runs a shell, which would expand \` and $; name another one, or use NVRTC (pip install nvidia-cuda-nvrtc)`;
}

/**
 * Replaces `extern "C"` before a kernel by as many spaces: the kernel's mangled name then contains its parameters' types, and columns in
 * messages stay correct.
 */
const withoutLinkage = (text: string): string =>
  text.replaceAll(/extern\s+"C"(?=\s+__global__)/g, (linkage) => linkage.replaceAll(/\S/g, ' '));

/** A pattern of host code, and the error for host code in a file of kernels, where CUDA's functions of programmatic launch are allowed. */
export const hostCode = {
  pattern: /<<<|\bint\s+main\s*\(|\bcuda(?!GridDep|TriggerProg)[A-Z]\w*\s*\(/,
  message:
    'this is code of the host: leave only kernels and device functions in the file; a card or a TypeScript program launches them',
};

/** The error for a failed compilation: advice, or the compiler's messages in the form FILE:LINE: MESSAGE. */
function refused(log: string, { target, name, text: source }: Source, compiler: string): Gpt2Error {
  if (/(invalid value for|Unsupported gpu architecture|gpu-architecture)/i.test(log)) {
    return gpt2Error`${compiler} cannot compile for compute capability ${target}: install a newer CUDA (pip install nvidia-cuda-nvrtc)`;
  }
  const text = log
    .replaceAll(/^(.+)\((\d+)\): /gm, '$1:$2: ')
    .replaceAll(/^(\d+ errors? detected in the compilation of|Remark: ).*$/gm, '')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim();
  const lines = source.split('\n');
  const wrong = [...text.matchAll(/:(\d+): error: /g)].find(([, line]) =>
    hostCode.pattern.test(lines[Number(line) - 1] ?? ''),
  );
  const host = wrong ? `\n${name}:${wrong[1]}: ${hostCode.message}` : '';
  const missing = /identifier "__(?:nv_(bf)loat|hal(f))(?:16)?" is undefined/.exec(text);
  const header = missing ? `\n${name}: write #include <cuda_${missing[1] ? 'bf' : 'fp'}16.h> for this type` : '';
  return new CompileError(text === '' ? `${name}: ${compiler} failed without a message` : `${text}${host}${header}`);
}
