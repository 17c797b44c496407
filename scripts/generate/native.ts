// Makes the C++ that repeats the header: its functions as each library implements them (ops.generated.h), the exported functions
// with argument checks (api.generated.cpp), and for the CPU library the table of a code path's kernels (cpu/kernels.generated.h) with
// the dispatch to them (cpu/ops.generated.cpp).
import type { NativeFunction, Parameter } from './header.ts';
import { type Header, namesIn, type Op, type TensorShape } from './shapes.ts';

const heading = (text: string): string =>
  `// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.\n${text}\n`;

const plain = ({ symbol }: { symbol: string }): string => symbol.replace(/^gpt2_/, '');

/** Whether a parameter is a handle: a context, a communicator, an event and so on. */
const isHandle = ({ base, isPlace }: Parameter): boolean => base.startsWith('gpt2_') && !isPlace;

/** A parameter as the header declares it. */
const declared = ({ isConst, base, isPointer, isPlace, cName }: Parameter): string =>
  `${isConst ? 'const ' : ''}${base} ${isPointer ? '*' : ''}${isPlace ? '*' : ''}${cName}`;

/** The parameter of a function that is called after the checks: a handle is a reference, a flag a bool, an int32_t an int. */
function checked(parameter: Parameter): string {
  const { base, isPointer, isFlag, cName } = parameter;
  if (base === 'gpt2_context') return 'Context &context';
  if (isHandle(parameter)) return `${base} &${cName}`;
  if (isFlag) return `bool ${cName}`;
  return isPointer ? declared(parameter) : `${base === 'int32_t' ? 'int' : base} ${cName}`;
}

function passed(parameter: Parameter): string {
  if (parameter.base === 'gpt2_context') return 'opened(*context)';
  if (isHandle(parameter)) return `*${parameter.cName}`;
  return parameter.isFlag ? `${parameter.cName} != 0` : parameter.cName;
}

/** Whether a parameter is a communicator that may be NULL. Such a communicator stays a pointer after the checks. */
const isOptionalRanks = ({ base }: Parameter, { communicator }: Op): boolean =>
  base === 'gpt2_communicator' && communicator === 'optional';
const checkedIn = (op: Op) => (parameter: Parameter) =>
  isOptionalRanks(parameter, op) ? declared(parameter) : checked(parameter);

const list = (parameters: readonly Parameter[], write: (parameter: Parameter) => string): string =>
  parameters.map(write).join(', ');

const sizesOfScratch = ({ parameters }: NativeFunction): readonly Parameter[] => parameters.slice(2);

/** The functions that take a context and are not ops, without gpt2_context_*: these exported functions are written by hand. */
const inContext = (functions: readonly NativeFunction[]): NativeFunction[] =>
  functions.filter(
    ({ isInOps, result, symbol, parameters: [first] }) =>
      !isInOps && result === 'int' && first?.base === 'gpt2_context' && !symbol.startsWith('gpt2_context_'),
  );

/** cuda/runtime/ops.generated.h */
export function opsHeader({ functions, ops, scratches }: Header): string {
  const declarations = [
    ...ops.map((op) => `void ${plain(op.declaration)}(${list(op.declaration.parameters, checkedIn(op))});`),
    ...scratches.map((one) => `int64_t ${plain(one)}(const Context &context, ${list(sizesOfScratch(one), checked)});`),
  ];
  const runtime = inContext(functions).map((each) => `void ${plain(each)}(${list(each.parameters, inRuntime)});`);
  return `${heading(`// The functions of gpt2.h as each library implements them. All throw a Failure. Ops run after api.generated.cpp has checked
// arguments and workspace; *_scratch give bytes.`)}#pragma once

#ifdef GPT2_CUDA
#include "cuda-context.h"
#else
#include "../cpu/context.h"
#endif

namespace gpt2::runtime {

${runtime.join('\n')}

}  // namespace gpt2::runtime

namespace gpt2::ops {

${declarations.join('\n')}

}  // namespace gpt2::ops
`;
}

/** Breaks lines of over 120 characters at the last comma or operator, and indents as clang-format does. */
export function wrapped(text: string): string {
  return text
    .split('\n')
    .flatMap(function wrap(line: string): string[] {
      if (line.length <= 120 || line.startsWith('//')) return [line];
      const at = Math.max(line.lastIndexOf(', ', 119), line.lastIndexOf(' + ', 118));
      const indent = /^ */.exec(line)![0];
      const deeper = /^ *(?:int|int64_t|void|return|check\w*|\.)/.test(line) ? `${indent}    ` : indent;
      const isInQuotes = (line.slice(0, at).match(/"/g)?.length ?? 0) % 2 === 1;
      if (at < indent.length + 20 || isInQuotes) return [line];
      return [line.slice(0, at + 2).trimEnd(), ...wrap(deeper + line.slice(at + 2).trimStart())];
    })
    .join('\n');
}

/** A parameter of a function that is no op: handles are references, because they are checked. */
const inRuntime = (parameter: Parameter): string => (isHandle(parameter) ? checked(parameter) : declared(parameter));

const pairs = (names: readonly string[]): string => names.map((name) => `{"${name}", ${name}}`).join(', ');

const inCpp = (relation: string): string => relation.replaceAll('NULL', 'nullptr');

/** The end of a C++ string expression: the values of the numbers in a relation, as `, got N = " + std::to_string(N)`. */
function valuesIn(relation: string, { declaration }: Op): string {
  const isNumber = (name: string) => declaration.parameters.some((each) => each.cName === name && !each.isPointer);
  const numbers = [...new Set(namesIn(relation))].filter(isNumber);
  const values = numbers.map((name) => `${name} = " + std::to_string(${name})`);
  return values.length === 0 ? '"' : `, got ${values.join(' + ", ')}`;
}

/** Checks of relations between arguments. They follow the checks of single arguments: a size of 0 must not reach a division. */
function relationsOf(op: Op): string[] {
  const { tensors, dtypes, relations, sizes } = op;
  const names = sizes.map(({ cName }) => cName);
  const calls: string[] = [];
  if (names.includes('B') && names.includes('T')) {
    calls.push('check_that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")');
  }
  for (const relation of relations) {
    calls.push(`check_that(${inCpp(relation)}, "${relation}${valuesIn(relation, op)})`);
  }
  for (const { parameter, together, where } of tensors) {
    const { cName } = parameter;
    if (where) {
      const condition = `${where.argument} ${where.operator} ${where.value}`;
      const holds = where.orNull
        ? `!${cName} || ${inCpp(condition)}`
        : `(${cName} != nullptr) == (${inCpp(condition)})`;
      const text = `${cName} ${where.orNull ? 'only' : 'exactly'} where ${condition}`;
      calls.push(`check_that(${holds}, "${text}${valuesIn(where.argument, op)})`);
    }
    if (together === undefined) continue;
    calls.push(`check_that(!${cName} == !${together}, "both ${cName} and ${together}, or neither")`);
  }
  for (const dtype of dtypes) {
    const holds = `${dtype} == GPT2_FP32 || ${dtype} == GPT2_BF16`;
    calls.push(`check_that(${holds}, "${dtype} fp32 or bf16, got " + std::to_string(${dtype}))`);
  }
  return calls;
}

/** The check of an op on FP8 tensors that the context's dtype is GPT2_FP8; [] for other ops. */
function fp8Check({ tensors }: Op): string[] {
  const fp8 = tensors.filter(({ parameter, together }) => parameter.base === 'uint8_t' && together === undefined);
  if (fp8.length === 0) return [];
  const names = fp8.map(({ parameter }) => parameter.cName);
  return [`${fp8.every(({ isOptional }) => isOptional) ? `if (${names.join(' || ')}) ` : ''}context->check_fp8()`];
}

function checksOf(op: Op, scratch: string | undefined): string {
  const { tensors, sizes, communicator } = op;
  const required = tensors.filter(({ isOptional }) => !isOptional).map(({ parameter }) => parameter.cName);
  const calls = [`check_sizes({${pairs(sizes.map(({ cName }) => cName))}})`];
  if (required.length > 0) calls.push(`check_tensors({${pairs(required)}})`);
  if (communicator === 'required') calls.push('check_handles({{"a communicator", communicator}})');
  calls.push(...relationsOf(op), ...fp8Check(op));
  if (scratch) calls.push(`check_scratch(*context, ${scratch})`);
  return calls.map((call) => `  ${call};`).join('\n');
}

/** An exported function, which returns GPT2_OK or the status of an exception that `body` throws. */
const guarded = ({ symbol, parameters }: NativeFunction, body: string): string =>
  `int ${symbol}(${list(parameters, declared)}) try {
${body}
  return GPT2_OK;
} catch (...) {
  return thrown(context, __func__);
}`;

function exported(op: Op): string {
  const { declaration, workspace, communicator } = op;
  const args = workspace?.args.map((arg, index) =>
    sizesOfScratch(workspace.scratch)[index]!.isFlag && /^\d$/.test(arg) ? String(arg === '1') : arg,
  );
  const scratch = workspace && `ops::${plain(workspace.scratch)}(opened(*context), ${args!.join(', ')})`;
  const pass = (each: Parameter) => (isOptionalRanks(each, op) ? each.cName : passed(each));
  // Collectives check their launches themselves, because NCCL may leave a CUDA error that NCCL has handled.
  const end = communicator === 'required' ? '' : '\n  context->check_launches();';
  const call = `  ops::${plain(declaration)}(${list(declaration.parameters, pass)});`;
  return guarded(declaration, `${checksOf(op, scratch)}\n${call}${end}`);
}

function exportedScratch(scratch: NativeFunction): string {
  const sizes = sizesOfScratch(scratch);
  const required = sizes.filter(({ isFlag }) => !isFlag).map(({ cName }) => cName);
  return guarded(
    scratch,
    `  check_sizes({${pairs(required)}});
  check_handles({{"a place for the bytes", bytes}});
  *bytes = ops::${plain(scratch)}(opened(*context), ${list(sizes, passed)});`,
  );
}

/** An exported function that is no op. It checks that handles and places for results are not NULL. */
function exportedRuntime(declaration: NativeFunction): string {
  const { parameters } = declaration;
  const isRequired = (each: Parameter) =>
    isHandle(each) || (each.isHost && !each.isConst && (each.isPlace || each.base !== 'void'));
  const handles = parameters.slice(1).filter(isRequired);
  const check = handles.length > 0 ? `  check_handles({${pairs(handles.map(({ cName }) => cName))}});\n` : '';
  const pass = (each: Parameter) => (isHandle(each) ? passed(each) : each.cName);
  return guarded(declaration, `${check}  runtime::${plain(declaration)}(${list(parameters, pass)});`);
}

/** cuda/runtime/api.generated.cpp */
export function api({ functions, ops, scratches }: Header): string {
  return `${heading('// The exported functions of both libraries: arguments are checked here, then the library implements the rest (ops.generated.h).')}#include <cstdint>

#include "checks.h"
#include "ops.generated.h"

using namespace gpt2;

${[...inContext(functions).map(exportedRuntime), ...ops.map(exported), ...scratches.map(exportedScratch)].join('\n\n')}
`;
}

/** Parameters of a CPU kernel: the op's without context and dtypes, because every CPU tensor is fp32. */
const kernelParameters = ({ declaration, dtypes }: Op): Parameter[] =>
  declaration.parameters.slice(1).filter(({ cName }) => !dtypes.has(cName));

const inFloats = (parameter: Parameter): string =>
  parameter.isPointer && parameter.base === 'void' ? declared({ ...parameter, base: 'float' }) : checked(parameter);

/** cuda/cpu/kernels.generated.h */
export function kernelTable({ ops, scratches }: Header): string {
  const perDevice = ops.filter(({ communicator }) => !communicator);
  const members = [
    ...perDevice.map((op) => `  void (*${plain(op.declaration)})(Task, ${list(kernelParameters(op), inFloats)});`),
    ...scratches.map((each) => `  int64_t (*${plain(each)})(int threads, ${list(sizesOfScratch(each), checked)});`),
  ];
  const names = [...perDevice.map(({ declaration }) => plain(declaration)), ...scratches.map(plain)];
  return `${heading('// The ops of one code path of the CPU library, each with plain arrays; *_scratch give floats. See kernels.h.')}#pragma once

#include <cstdint>

namespace gpt2 {

struct Task;

struct OpKernels {
${members.join('\n')}
};

#define GPT2_OP_KERNELS(X) \\
  ${names.map((name) => `X(${name})`).join(' \\\n  ')}

}  // namespace gpt2
`;
}

function idChecks({ tensors }: Op): string[] {
  const count = ({ dimensions }: TensorShape) => `static_cast<int64_t>(${dimensions.join(') * (')})`;
  return tensors.flatMap((tensor) => {
    const { below, isCausal, orNone, dimensions, parameter } = tensor;
    const named = `"${parameter.cName}", ${parameter.cName}`;
    if (isCausal) return [`check_causal(${named}, ${dimensions.join(', ')})`];
    return below === undefined ? [] : [`check_ids(${named}, ${count(tensor)}, ${orNone ? -1 : 0}, ${below})`];
  });
}

function dispatch(op: Op): string {
  const { declaration, dtypes } = op;
  const isFp32 = (name: string) =>
    `check_that(${name} == GPT2_FP32, "${name} fp32 (0), got " + std::to_string(${name}))`;
  const checks = [...idChecks(op), ...[...dtypes].map(isFp32)];
  const args = list(kernelParameters(op), (parameter) =>
    parameter.isPointer && parameter.base === 'void' ? `floats(${parameter.cName})` : parameter.cName,
  );
  return `void ${plain(declaration)}(${list(declaration.parameters, checked)}) {
${checks.map((check) => `  ${check};\n`).join('')}  context.kernels->${plain(declaration)}(context.task(), ${args});
}`;
}

function scratchDispatch(scratch: NativeFunction): string {
  const sizes = sizesOfScratch(scratch);
  return `int64_t ${plain(scratch)}(const Context &context, ${list(sizes, checked)}) {
  const int64_t floats = context.kernels->${plain(scratch)}(context.pool->threads(), ${list(sizes, ({ cName }) => cName)});
  return floats * static_cast<int64_t>(sizeof(float));
}`;
}

/** cuda/cpu/ops.generated.cpp */
export function cpuOps({ ops, scratches }: Header): string {
  const perDevice = ops.filter(({ communicator }) => !communicator);
  return `${heading("// The ops on the CPU: passes each to the kernel of the context's code path. Collectives are in collectives.cpp.")}#include "../runtime/ops.generated.h"

#include "../runtime/checks.h"

namespace gpt2::ops {

namespace {

const float *floats(const void *tensor) { return static_cast<const float *>(tensor); }
float *floats(void *tensor) { return static_cast<float *>(tensor); }

}  // namespace

${[...perDevice.map(dispatch), ...scratches.map(scratchDispatch)].join('\n\n')}

}  // namespace gpt2::ops
`;
}
