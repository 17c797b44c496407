// Reads from a compiler's output, for each kernel of a file: registers, memory and spills; PTX; SASS (machine instructions).
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gpt2Error, orElse } from '../base/errors.ts';
import { demangled, findTool } from '../native/nvrtc.ts';
import { compiledFile, type KernelSource } from '../ops/kernels/compile.ts';
import { parseSignature } from '../ops/kernels/signature.ts';

/** The resources that ptxas reports for a kernel. Memory is in bytes per thread, except for `shared`. */
export interface Resources {
  readonly registers: number;
  /** Bytes of static shared memory of a block. */
  readonly shared: number;
  /** Bytes of local memory: spilled registers, and arrays with a variable index. */
  readonly local: number;
  readonly spillStores: number;
  readonly spillLoads: number;
}

/** Values by the kernel's name with its template arguments: "scale<float, 256>". */
export type PerKernel<Value> = ReadonlyMap<string, Value>;

const nameOf = (mangled: string): string => parseSignature(demangled(mangled)).name;

const readText = (path: string): string => readFileSync(path, 'utf8').replace(/\0$/, '');

export const resourcesOf = (source: KernelSource, target: string): PerKernel<Resources> =>
  parseResources(readText(compiledFile(source, target, 'log')));

/** Parses the output of `ptxas -v`. */
export function parseResources(log: string): PerKernel<Resources> {
  const kernels = new Map<string, Resources>();
  const number = (text: string, pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? 0);
  for (const section of log.split(/Compiling entry function /).slice(1)) {
    const mangled = /^'([^']+)'/.exec(section)![1]!;
    // Start at the kernel's properties: properties of functions that the kernel calls are listed separately, and do not count.
    const properties = section.slice(Math.max(0, section.indexOf(`Function properties for ${mangled}\n`)));
    kernels.set(nameOf(mangled), {
      registers: number(section, /Used (\d+) registers/),
      shared: number(section, /(\d+) bytes smem/),
      local: number(section, /(\d+) bytes cumulative stack size/) || number(properties, /(\d+) bytes stack frame/),
      spillStores: number(properties, /(\d+) bytes spill stores/),
      spillLoads: number(properties, /(\d+) bytes spill loads/),
    });
  }
  return kernels;
}

/** A line of a listing: an instruction, or the source position of the instructions that follow. */
type Line = string | Place;
interface Place {
  readonly file: string;
  readonly line: number;
  /** Where the function that contains the position was inlined: "k.cu:6". */
  readonly inlinedAt?: string | undefined;
}

/** The PTX of each kernel, with the source lines as comments. @throws as `compiledFile` */
export const ptxOf = (source: KernelSource, target: string): PerKernel<string> =>
  listingsOf(parsePtx(readText(compiledFile(source, target, 'ptx'))));

export function parsePtx(text: string): PerKernel<readonly Line[]> {
  const files = new Map([...text.matchAll(/^\s*\.file\s+(\d+)\s+"([^"]*)"/gm)].map(([, id, path]) => [id, path!]));
  const lineOf = (line: string): Line => {
    const [, file, at, inlined, inlinedAt] =
      /^\s*\.loc\s+(\d+) (\d+) \d+(?:.*inlined_at (\d+) (\d+))?/.exec(line) ?? [];
    if (file === undefined) return line.replace(/^\t/, '    ').replaceAll('\t', ' ');
    return { file: files.get(file)!, line: Number(at), inlinedAt: inlined && `${files.get(inlined)}:${inlinedAt}` };
  };
  const kernels = text.matchAll(/^.*\.entry\s+([\w$]+)[\s\S]*?^\}$/gm);
  const linesOf = (code: string) => code.split('\n').filter((line) => line.trim() !== '');
  return new Map([...kernels].map(([code, mangled]) => [nameOf(mangled!), linesOf(code).map(lineOf)]));
}

/**
 * The SASS of each kernel (the GPU's machine instructions), with the source lines as comments.
 * @throws as `compiledFile`; Gpt2Error if nvdisasm is missing or fails
 */
export function sassOf(source: KernelSource, target: string): PerKernel<string> {
  // Disassemble with nvdisasm: cuobjdump would need nvdisasm too.
  const program = findTool('nvdisasm');
  if (program === undefined) {
    throw gpt2Error`SASS needs nvdisasm, which is missing: it comes with the CUDA toolkit (on Debian and Ubuntu nvidia-cuda-toolkit, or pip install nvidia-cuda-nvdisasm); install it, add its folder to PATH, or set CUDA_HOME`;
  }
  const options = ['--print-code', '--print-line-info-inline', compiledFile(source, target)];
  const { status, stdout, stderr, error } = spawnSync(program, options, { encoding: 'utf8', maxBuffer: 256 << 20 });
  if (status !== 0)
    throw gpt2Error`${program} failed: ${error?.message ?? stderr.trim()}; install the compiler's version of it`;
  return listingsOf(parseSass(stdout));
}

/** Whether a file is one of CUDA's headers: whether cuda_runtime.h is in the file's folder. */
const isOfCuda = (file: string): boolean => existsSync(join(dirname(file), 'cuda_runtime.h'));

export function parseSass(text: string): PerKernel<readonly Line[]> {
  const kernels = text.split(/^\/\/---/m).flatMap((section) => {
    const [, mangled, code] = /^\.text\.([\w$]+):\n([\s\S]*)/m.exec(section) ?? [];
    return mangled === undefined ? [] : [[nameOf(mangled), sassLines(code!)] as const];
  });
  return new Map(kernels);
}

function sassLines(code: string): Line[] {
  const lines: Line[] = [];
  let wasPlace = false;
  for (const line of code.split('\n')) {
    const [, file, at, inlined, inlinedAt] =
      /^\s*\/\/## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?/.exec(line) ?? [];
    // An inlined function's position is followed by its callers' positions. Keep the innermost position outside of CUDA's headers.
    if (file !== undefined) {
      const last = wasPlace ? (lines.at(-1) as Place) : undefined;
      if (last && isOfCuda(last.file)) lines.pop();
      if (!last || isOfCuda(last.file)) {
        lines.push({ file, line: Number(at), inlinedAt: inlined && `${inlined}:${inlinedAt}` });
      }
    }
    wasPlace = file !== undefined;
    // Leave out directives, and the NOPs that pad the code.
    if (!wasPlace && line.trim() !== '' && !/^\s+\.|\bNOP\s*;/.test(line)) {
      lines.push(line.replace(/^\s*(\/\*\w+\*\/)\s+/, '    $1 '));
    }
  }
  return lines;
}

/** A text for each kernel: a source line as a comment, then the instructions compiled from it. */
function listingsOf(kernels: PerKernel<readonly Line[]>): PerKernel<string> {
  const files = new Map<string, readonly string[]>();
  const describe = ({ file, line, inlinedAt }: Place): string => {
    const lines = files.get(file) ?? linesOf(file);
    files.set(file, lines);
    const inlined = inlinedAt === undefined ? '' : ` (inlined at ${basename(inlinedAt)})`;
    return `// ${basename(file)}:${line}${inlined}  ${lines[line - 1]?.trim() ?? ''}`.trimEnd();
  };
  const listing = (lines: readonly Line[]): string => {
    let [place, shown] = ['', ''];
    const out = lines.flatMap((line) => {
      if (typeof line !== 'string') {
        place = describe(line);
        return [];
      }
      const isShown = place === shown;
      shown = place;
      return isShown ? [line] : [place, line];
    });
    return out.join('\n');
  };
  return new Map([...kernels].map(([name, lines]) => [name, listing(lines)]));
}

// Source lines of a file; [] if the file does not exist, such as a compiler's built-in header.
const linesOf = (path: string): readonly string[] => orElse([], () => readFileSync(path, 'utf8').split('\n'));
