// `kernel test FILE.cu --expect`: calls a function or kernel of a .cu file in a generated program, and compares its outputs.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkGiven, checkValue, real, whole } from '../base/checks/given.ts';
import { explained, gpt2Error, shown } from '../base/errors.ts';
import { packageRoot } from '../base/package-root.ts';
import { elementCount } from '../native/element-types.ts';
import { TemporaryFolder } from '../native/temporary-folder.ts';
import { split } from '../ops/kernels/brackets.ts';
import { compiledProgram, functionList, functionsOf, programEnvironment } from '../ops/kernels/compile.ts';
import { importCard } from '../ops/kernels/import-card.ts';
import type { LaunchShape } from '../ops/kernels/kernels.ts';
import { isOff, wrongArray, wrongLines } from './describe-wrong.ts';

/**
 * One call of the function and its expected outputs; if the function is a kernel, also grid and block. Keys are parameter names. The
 * generated program converts numbers to the parameters' C types (fp16, int64, ...), and refuses a number that the type cannot hold.
 */
export interface ExpectedCall extends Partial<LaunchShape> {
  /** Printed after the case's number. Default: the scalar inputs, such as "N 256". */
  readonly name?: string;
  /** A number, or an array's numbers in row-major order, for each input. */
  readonly inputs: Readonly<Record<string, number | ArrayLike<number>>>;
  /** The numbers of each output array after the call. An output that is not also an input is uninitialized before the call. */
  readonly expected: Readonly<Record<string, ArrayLike<number>>>;
  /** Shapes of output arrays, for messages that give the indices of a wrong element. Default: vectors. */
  readonly shapes?: Readonly<Record<string, readonly number[]>>;
}

/** The default export of the file that --expect names. */
export interface Expectation {
  /** Name of the function or kernel. Default: solve. */
  readonly function?: string;
  readonly cases: readonly ExpectedCall[];
  /** Allowed error of floats, relative to the expected value; absolute for values below 1. Default 1e-4. Integers must be equal. */
  readonly tolerance?: number;
}

/** Runs the cases one by one, and yields each result. @throws CompileError; Gpt2Error if the parameters cannot take a case's values */
export async function* testFile(file: string, expectation: string, device: 'cuda' | 'cpu', seconds: number) {
  const { cases, tolerance = 1e-4, ...rest } = await readExpectation(expectation);
  const name = rest.function ?? 'solve';
  const { names, isKernel } = parametersOf(file, name);
  const inputs = cases.map((one, index) =>
    explained(`${expectation}: case ${index + 1}`, undefined, () => packed(one, names, isKernel)),
  );
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
  /** By report (the program's stderr), the first case that had it: an equal report is not printed again. */
  const reported = new Map<string, string>();
  for (const [index, one] of cases.entries()) {
    writeFileSync(path('in'), inputs[index]!);
    // Remove the outputs of the previous case, because this case may fail before it writes outputs.
    rmSync(path('out'), { force: true });
    const { signal, status, stderr } = spawnSync(program!, [path('in'), path('out')], {
      ...{ stdio: ['ignore', 'inherit', 'pipe'], timeout: Math.round(seconds * 1000), killSignal: 'SIGKILL' },
      ...{ env: programEnvironment('quiet'), encoding: 'utf8', maxBuffer: 64 << 20 },
    });
    const report = stderr.trimEnd();
    // Exit code 78 of the generated program: the function's parameters cannot take the values of the case.
    if (status === 78) throw gpt2Error`${expectation}: case ${index + 1}: ${report}`;
    const title = titleOf(one, index);
    const earlier = reported.get(report);
    reported.set(report, earlier ?? title);
    const reports = report === '' ? [] : [earlier === undefined ? report : `the same report as of ${earlier}`];
    const late = signal === 'SIGKILL' ? ` after ${seconds} s` : '';
    const why = signal ? `ended by ${signal}${late}` : `exit code ${status}`;
    const wrong = existsSync(path('out')) ? wrongOutputs(one, names, numbersIn(path('out')), tolerance) : [];
    const printed = isDrawn ? wrong.map(({ sentence }) => sentence) : wrong.flatMap(wrongLines);
    const failed = status === 0 ? [] : [status === 3 ? 'defects' : `the program failed (${why})`];
    const isRight = wrong.length + failed.length === 0;
    isDrawn ||= wrong.length > 0;
    yield {
      name: title,
      isRight,
      lines: [...(isRight ? [`right: ${Object.keys(one.expected).join(', ')}`] : [...failed, ...printed]), ...reports],
    };
  }
}

async function readExpectation(file: string): Promise<Expectation> {
  explained(`the expectation ${file} cannot be read`, 'name a .ts or .mjs file', () => readFileSync(file));
  if (!/\.[cm]?[jt]s$/.test(file))
    throw gpt2Error`the expectation ${file} is no TypeScript or JavaScript: name a .ts or .mjs file`;
  const { default: expectation } = (await importCard(file, `the expectation ${file}`)) as { default?: Expectation };
  if (!expectation?.cases?.length)
    throw gpt2Error`${file} needs a default export with cases: [{ inputs: { N: 4 }, expected: { out: [1, 2, 3, 4] } }]`;
  const optional = { function: 'text', tolerance: real(0) } as const;
  explained(file, undefined, () => checkGiven(expectation, { cases: 'object' }, optional));
  return expectation;
}

function parametersOf(file: string, name: string): { names: readonly string[]; isKernel: boolean } {
  const functions = functionsOf([file]);
  const found = functions.find((each) => each.name === name.replace(/<.*/, ''));
  if (!found) throw gpt2Error`${file} has no function ${name}; it has ${functionList(functions)}`;
  const names = split(found.parameters, ',').map((each) => /(\w+)\s*(?:\[\s*\])?$/.exec(each.trim())?.[1] ?? '');
  return { names: names.filter(Boolean), isKernel: found.isKernel };
}

/** Encodes a case as numbers for expect.h: the launch, then each parameter. @throws Gpt2Error if the case does not fit the function */
function packed(call: ExpectedCall, names: readonly string[], isKernel: boolean): Float64Array {
  const { inputs, expected, shapes = {}, grid = 1, block = 1, shared = 0 } = call;
  const needed = { inputs: 'object', expected: 'object', grid: 'object', block: 'object' } as const;
  checkGiven({ ...call, grid: [grid], block: [block] }, needed, { name: 'text', shapes: 'object', shared: whole(0) });
  if (isKernel === [call.grid, call.block].includes(undefined))
    throw gpt2Error`the function is ${isKernel ? 'a kernel: give' : 'no kernel: leave out'} grid and block`;
  const unknown = Object.keys({ ...inputs, ...expected }).find((each) => !names.includes(each));
  if (unknown !== undefined) throw gpt2Error`${unknown} is no parameter; they are ${names.join(', ')}`;
  if (Object.keys(expected).length === 0) throw gpt2Error`expected is empty: give the numbers of an output`;
  const sizes = [grid, block].flatMap((size) => Array.from({ length: 3 }, (_, axis) => [size].flat()[axis] ?? 1));
  for (const size of sizes) checkValue('a size of grid or block', whole(1, 2 ** 31 - 1), size);
  const values = [sizes, [shared]];
  for (const name of names) {
    const [value, wanted] = [inputs[name], expected[name]];
    if (value === undefined && wanted === undefined) throw gpt2Error`it lacks the parameter ${name}`;
    if (typeof value === 'number' && !wanted) values.push([-1, value]);
    else {
      const [before, after] = [numbersOf(name, value), numbersOf(name, wanted)];
      if (value && wanted && before.length !== after.length)
        throw gpt2Error`${name} has ${before.length} numbers as an input, but ${after.length} are expected`;
      values.push([Math.max(before.length, after.length), value ? 1 : 0, wanted ? 1 : 0], before, after);
    }
  }
  for (const [name, shape] of Object.entries(shapes)) {
    if (elementCount([shape].flat()) !== expected[name]?.length)
      throw gpt2Error`the shape ${shown(shape)} does not fit the ${expected[name]?.length ?? 0} numbers that are expected in ${name}`;
  }
  return Float64Array.from(values.flat());
}

function numbersOf(name: string, array: unknown = []): number[] {
  if (!(Object(array).length >= 0)) throw gpt2Error`${name} takes an array of numbers, not ${shown(array)}`;
  const numbers = Array.from(array as ArrayLike<number>);
  const index = numbers.findIndex((each) => typeof each !== 'number');
  if (index < 0) return numbers;
  throw gpt2Error`${name}[${index}] is ${shown(numbers[index])}, which is no number: write a matrix as one array, row after row`;
}

const numbersIn = (path: string) => new Float64Array(new Uint8Array(readFileSync(path)).buffer);

function wrongOutputs(call: ExpectedCall, names: readonly string[], found: Float64Array, tolerance: number) {
  const { inputs, expected, shapes } = call;
  let at = 0;
  return names.flatMap((name) => {
    const array = expected[name] ?? inputs[name]!;
    if (typeof array === 'number') return [];
    const isInteger = found[at++] === 1;
    const values = found.subarray(at, at + array.length);
    at += array.length;
    if (!expected[name]) return [];
    const wanted = Float64Array.from(array);
    // An expected infinity allows no error: the tolerance, relative to infinity, would be infinite.
    const mostOf = (value: number) =>
      isInteger || !Number.isFinite(value) ? 0 : tolerance * Math.max(1, Math.abs(value));
    const wrong = Array.from(wanted, (value, index) => isOff(values[index]!, value, mostOf(value)));
    const result = { name, shape: shapes?.[name] ?? [wanted.length], values, wanted };
    return wrong.includes(true) ? [wrongArray(result, wrong)] : [];
  });
}

const titleOf = ({ name, inputs }: ExpectedCall, index: number): string => {
  const scalars = Object.entries(inputs).filter(([, value]) => typeof value === 'number');
  return [`case ${index + 1}`, name ?? scalars.map((one) => one.join(' '))].flat().join(', ');
};
