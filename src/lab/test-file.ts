// Tests a function or a kernel of a .cu file against expected outputs, in a program that is compiled for it.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { explained, gpt2Error } from '../base/errors.ts';
import { packageRoot } from '../base/package-root.ts';
import { TemporaryFolder } from '../native/temporary-folder.ts';
import { split } from '../ops/kernels/brackets.ts';
import { compiledProgram, functionList, functionsOf, programEnvironment } from '../ops/kernels/compile.ts';
import { importCard } from '../ops/kernels/import-card.ts';
import type { Dimensions } from '../ops/kernels/kernels.ts';
import { isOff, wrongArray, wrongLines } from './describe-wrong.ts';

/** One call, with values by the names of parameters. They become the C types of the function: fp16, int64, and so on. */
export interface ExpectedCall {
  /** Default: its scalar inputs, "N 256". */
  readonly name?: string;
  /** A number, or the numbers of an array. */
  readonly inputs: Readonly<Record<string, number | ArrayLike<number>>>;
  /** The numbers of arrays after the call. An array that is no input begins without values. */
  readonly expected: Readonly<Record<string, ArrayLike<number>>>;
  /** Shapes of expected arrays, for messages. Default: vectors. */
  readonly shapes?: Readonly<Record<string, readonly number[]>>;
  /** The launch, if the function is a kernel. */
  readonly grid?: Dimensions;
  readonly block?: Dimensions;
  /** Bytes of dynamic shared memory. */
  readonly shared?: number;
}

/** The default export of a file for `gpt2 kernel test FILE.cu --expect`. */
export interface Expectation {
  /** The function, or the kernel. Default: solve. */
  readonly function?: string;
  readonly cases: readonly ExpectedCall[];
  /** The most that a value may be off, as a share of the expected value or, below 1, absolute. Default 1e-4. */
  readonly tolerance?: number;
}

/** Yields the outcome of each case. @throws CompileError; Gpt2Error if a name does not fit the function */
export async function* testFile(file: string, expectation: string, device: 'cuda' | 'cpu', seconds: number) {
  const { cases, tolerance = 1e-4, ...rest } = await readExpectation(expectation);
  const name = rest.function ?? 'solve';
  const { names, isKernel } = parametersOf(file, name);
  if (isKernel && cases.some(({ grid, block }) => grid === undefined || block === undefined)) {
    throw gpt2Error`${expectation}: ${name} is a kernel: give each case its grid and block`;
  }
  const inputs = cases.map((one) => packed(one, names, expectation));
  using folder = new TemporaryFolder('expect');
  const path = (end: string) => join(folder.path, end);
  const values = names.map((_, index) => `std::get<${index}>(arguments).get()`).join(', ');
  const lines = [
    `\n#line 1 "the test of ${name}"`,
    readFileSync(join(packageRoot, 'cuda/expect.h'), 'utf8'),
    `static const char *const gpt2_names[] = {${names.map((each) => `"${each}"`).join(', ')}};`,
    'int main(int, char **argv) try {\n  gpt2_expect::input = fopen(argv[1], "rb");\n  gpt2_expect::names = gpt2_names;',
    '  const dim3 grid = gpt2_expect::next_sizes(), block = gpt2_expect::next_sizes();',
    `  const size_t shared = size_t(gpt2_expect::next());\n  auto arguments = gpt2_expect::arguments(&${name});`,
    `  ${name}${isKernel ? '<<<grid, block, shared>>>' : ''}(${values});\n  gpt2_expect::finish(arguments, argv[2]);`,
    '} catch (cudaError_t) {\n  return 1;\n}\n',
  ];
  const program = compiledProgram({ files: [file], added: lines.join('\n') }, device);
  let isDrawn = false;
  /** Cases by what their programs reported. */
  const reported = new Map<string, string>();
  for (const [index, one] of cases.entries()) {
    writeFileSync(path('in'), inputs[index]!);
    // Those of the case before are none of this one.
    rmSync(path('out'), { force: true });
    const { signal, status, stderr } = spawnSync(program!, [path('in'), path('out')], {
      ...{ stdio: ['ignore', 'inherit', 'pipe'], timeout: Math.round(seconds * 1000), killSignal: 'SIGKILL' },
      ...{ env: programEnvironment('quiet'), encoding: 'utf8', maxBuffer: 64 << 20 },
    });
    const report = stderr.trimEnd();
    const earlier = reported.get(report);
    reported.set(report, earlier ?? nameOf(one));
    const reports = report === '' ? [] : [earlier === undefined ? report : `the same report as of ${earlier}`];
    const late = signal === 'SIGKILL' ? ` after ${seconds} s` : '';
    const why = signal ? `ended by ${signal}${late}` : `exit code ${status}`;
    const wrong = existsSync(path('out')) ? wrongOutputs(one, names, numbersIn(path('out')), tolerance) : [];
    const shown = isDrawn ? wrong.map(({ sentence }) => sentence) : wrong.flatMap(wrongLines);
    const failed = status === 0 ? [] : [status === 3 ? 'defects' : `the program failed (${why})`];
    const isRight = wrong.length + failed.length === 0;
    isDrawn ||= wrong.length > 0;
    yield {
      name: nameOf(one),
      isRight,
      lines: [...(isRight ? [`right: ${Object.keys(one.expected).join(', ')}`] : [...failed, ...shown]), ...reports],
    };
  }
}

async function readExpectation(file: string): Promise<Expectation> {
  const path = resolve(file);
  explained(`the expectation ${file} cannot be read`, 'name a .ts or .mjs file', () => readFileSync(path));
  const { default: expectation } = (await importCard(path, `the expectation ${file}`)) as { default?: Expectation };
  const { cases } = expectation ?? {};
  if (!Array.isArray(cases) || !cases.every(({ inputs, expected }) => inputs && expected))
    throw gpt2Error`${file} needs a default export with cases: [{ inputs: { N: 4 }, expected: { out: [1, 2, 3, 4] } }]`;
  return expectation!;
}

function parametersOf(file: string, name: string): { names: readonly string[]; isKernel: boolean } {
  const functions = functionsOf([file]);
  const found = functions.find((each) => each.name === name.replace(/<.*/, ''));
  if (!found) throw gpt2Error`${file} has no function ${name}; it has ${functionList(functions)}`;
  const names = split(found.parameters, ',').map((each) => /(\w+)\s*(?:\[\s*\])?$/.exec(each.trim())?.[1] ?? '');
  return { names: names.filter(Boolean), isKernel: found.isKernel };
}

/** The bytes that expect.h reads: the launch, then each parameter. */
function packed(call: ExpectedCall, names: readonly string[], file: string): Float64Array {
  const { inputs, expected, grid = 1, block = 1, shared = 0 } = call;
  const unknown = Object.keys({ ...inputs, ...expected }).find((each) => !names.includes(each));
  if (unknown !== undefined) throw gpt2Error`${file}: ${unknown} is no parameter; they are ${names.join(', ')}`;
  const sizes = (size: Dimensions) => Array.from({ length: 3 }, (_, axis) => [size].flat()[axis] ?? 1);
  const values: number[] = [...sizes(grid), ...sizes(block), shared];
  for (const name of names) {
    const [value, wanted] = [inputs[name], expected[name]];
    if (value === undefined && wanted === undefined) throw gpt2Error`${file}: a case lacks the parameter ${name}`;
    if (typeof value === 'number') values.push(value);
    else values.push((value ?? wanted)!.length, value ? 1 : 0);
    const numbers = typeof value === 'object' ? Array.from(value) : [];
    for (const each of numbers) values.push(each);
    const other = numbers.concat(Array.from(wanted ?? [])).find((each) => typeof each !== 'number');
    if (other !== undefined) {
      throw gpt2Error`${file}: ${name} holds ${JSON.stringify(other)}, which is no number: write a matrix as one array, row after row`;
    }
  }
  return Float64Array.from(values);
}

const numbersIn = (path: string) => new Float64Array(new Uint8Array(readFileSync(path)).buffer);

function wrongOutputs(call: ExpectedCall, names: readonly string[], found: Float64Array, tolerance: number) {
  const { inputs, expected, shapes } = call;
  let at = 0;
  return names.flatMap((name) => {
    const array = expected[name] ?? inputs[name]!;
    if (typeof array === 'number') return [];
    const values = found.subarray(at, at + array.length);
    at += array.length;
    if (!expected[name]) return [];
    const wanted = Float64Array.from(array);
    const mostOf = (value: number) => tolerance * Math.max(1, Math.abs(value));
    const wrong = Array.from(wanted, (value, index) => isOff(values[index]!, value, mostOf(value)));
    const result = { name, shape: shapes?.[name] ?? [wanted.length], values, wanted };
    return wrong.includes(true) ? [wrongArray(result, wrong)] : [];
  });
}

const nameOf = ({ name, inputs }: ExpectedCall): string =>
  name ??
  Object.entries(inputs)
    .flatMap(([key, value]) => (typeof value === 'number' ? [`${key} ${value}`] : []))
    .join(', ');
