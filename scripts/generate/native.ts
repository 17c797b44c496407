// Makes the C++ that repeats the header: the ops as each library implements them (ops.generated.h), their exported functions with
// argument checks (api.generated.cpp), and for the CPU library the table of a code path's kernels (cpu/kernels.generated.h) with
// the dispatch to them (cpu/ops.generated.cpp).
import type { NativeFunction, Parameter } from './header.ts';
import { namesIn, type Op, type TensorShape } from './shapes.ts';

const heading = (text: string): string =>
  `// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.\n${text}\n`;

const plain = ({ symbol }: { symbol: string }): string => symbol.replace(/^gpt2_/, '');

/** A context or a communicator. */
const isHandle = ({ base }: Parameter): boolean => base.startsWith('gpt2_');

/** A parameter as the header declares it. */
const declared = ({ isConst, base, isPointer, cName }: Parameter): string =>
  `${isConst ? 'const ' : ''}${base} ${isPointer ? '*' : ''}${cName}`;

/** The parameter after the checks: a reference if it cannot be null, an int or a bool. */
function checked(parameter: Parameter): string {
  const { base, isPointer, isFlag, cName } = parameter;
  if (isHandle(parameter)) return `${base} &${cName}`;
  if (isFlag) return `bool ${cName}`;
  return isPointer ? declared(parameter) : `${base === 'int32_t' ? 'int' : base} ${cName}`;
}

function passed(parameter: Parameter): string {
  if (isHandle(parameter)) return `*${parameter.cName}`;
  return parameter.isFlag ? `${parameter.cName} != 0` : parameter.cName;
}

/** A communicator that may be NULL stays a pointer. */
const isOptionalRanks = ({ base }: Parameter, { communicator }: Op): boolean =>
  base === 'gpt2_communicator' && communicator === 'optional';
const checkedIn = (op: Op) => (parameter: Parameter) =>
  isOptionalRanks(parameter, op) ? declared(parameter) : checked(parameter);

const list = (parameters: readonly Parameter[], write: (parameter: Parameter) => string): string =>
  parameters.map(write).join(', ');

const sizesOfScratch = ({ parameters }: NativeFunction): readonly Parameter[] => parameters.slice(2);

/** cuda/runtime/ops.generated.h */
export function opsHeader(ops: readonly Op[], scratches: readonly NativeFunction[]): string {
  const declarations = [
    ...ops.map((op) => `int ${plain(op.declaration)}(${list(op.declaration.parameters, checkedIn(op))});`),
    ...scratches.map(
      (scratch) => `int64_t ${plain(scratch)}(const gpt2_context &context, ${list(sizesOfScratch(scratch), checked)});`,
    ),
  ];
  return `${heading(`// The ops as each library implements them, after api.generated.cpp has checked arguments and workspace. The result is a
// GPT2_STATUS; *_scratch give bytes.`)}#pragma once

#include "context.h"

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
      const deeper = /^ *(?:int|int64_t|void|return|check|\.)/.test(line) ? `${indent}    ` : indent;
      const isInQuotes = (line.slice(0, at).match(/"/g)?.length ?? 0) % 2 === 1;
      if (at < indent.length + 20 || isInQuotes) return [line];
      return [line.slice(0, at + 2).trimEnd(), ...wrap(deeper + line.slice(at + 2).trimStart())];
    })
    .join('\n');
}

const pairs = (names: readonly string[]): string => names.map((name) => `{"${name}", ${name}}`).join(', ');

const inCpp = (relation: string): string => relation.replaceAll('NULL', 'nullptr');

/** The end of a C++ string that says the values of the numbers in a relation. */
function valuesIn(relation: string, { declaration }: Op): string {
  const isNumber = (name: string) => declaration.parameters.some((each) => each.cName === name && !each.isPointer);
  const numbers = [...new Set(namesIn(relation))].filter(isNumber);
  const values = numbers.map((name) => `${name} = " + std::to_string(${name})`);
  return values.length === 0 ? '"' : `, got ${values.join(' + ", ')}`;
}

/** The relations between arguments, checked after each argument: a size of 0 must not reach a division. */
function relationsOf(op: Op): string[] {
  const { tensors, dtypes, relations, sizes } = op;
  const names = sizes.map(({ cName }) => cName);
  const calls: string[] = [];
  if (names.includes('B') && names.includes('T')) {
    calls.push('that(static_cast<int64_t>(B) * T <= INT32_MAX, "B * T below 2^31")');
  }
  for (const relation of relations) {
    calls.push(`that(${inCpp(relation)}, "${relation}${valuesIn(relation, op)})`);
  }
  for (const { parameter, together, where } of tensors) {
    const { cName } = parameter;
    if (where) {
      const condition = `${where.argument} ${where.operator} ${where.value}`;
      const holds = where.orNull
        ? `!${cName} || ${inCpp(condition)}`
        : `(${cName} != nullptr) == (${inCpp(condition)})`;
      const text = `${cName} ${where.orNull ? 'only' : 'exactly'} where ${condition}`;
      calls.push(`that(${holds}, "${text}${valuesIn(where.argument, op)})`);
    }
    if (together === undefined) continue;
    calls.push(`that(!${cName} == !${together}, "both ${cName} and ${together}, or neither")`);
  }
  for (const dtype of dtypes) {
    const holds = `${dtype} == GPT2_FP32 || ${dtype} == GPT2_BF16`;
    calls.push(`that(${holds}, "${dtype} fp32 or bf16, got " + std::to_string(${dtype}))`);
  }
  return calls;
}

function checksOf(op: Op, scratch: string | undefined): string {
  const { tensors, sizes, communicator } = op;
  const required = tensors.filter(({ isOptional }) => !isOptional).map(({ parameter }) => parameter.cName);
  const arguments_ = [`sizes({${pairs(sizes.map(({ cName }) => cName))}})`, `tensors({${pairs(required)}})`];
  if (communicator === 'required') arguments_.push('handles({{"a communicator", communicator}})');
  const relations = relationsOf(op);
  const lines = [`  check.${arguments_.join('\n      .')};`];
  if (relations.length > 0) lines.push(`  if (!check.failed()) {\n    check.${relations.join('\n        .')};\n  }`);
  if (scratch) lines.push(`  if (!check.failed()) check.scratch(${scratch});`);
  return lines.join('\n');
}

function exported(op: Op): string {
  const { declaration, workspace, communicator } = op;
  const { symbol, parameters } = declaration;
  const args = workspace?.args.map((arg, index) =>
    sizesOfScratch(workspace.scratch)[index]!.isFlag && /^\d$/.test(arg) ? String(arg === '1') : arg,
  );
  const scratch = workspace && `ops::${plain(workspace.scratch)}(*context, ${args!.join(', ')})`;
  const [open, close] = communicator
    ? [' try {', '} catch (...) {\n  return gpt2::thrown(context, __func__);\n}']
    : [' {', '}'];
  return `int ${symbol}(${list(parameters, declared)})${open}
  Check check(context, __func__);
${checksOf(op, scratch)}
  if (check.failed()) return check.status();
  return ops::${plain(declaration)}(${list(parameters, (each) => (isOptionalRanks(each, op) ? each.cName : passed(each)))});
${close}`;
}

function exportedScratch(scratch: NativeFunction): string {
  const { symbol, parameters } = scratch;
  const sizes = sizesOfScratch(scratch);
  const required = sizes.filter(({ isFlag }) => !isFlag).map(({ cName }) => cName);
  return `int ${symbol}(${list(parameters, declared)}) {
  Check check(context, __func__);
  check.sizes({${pairs(required)}}).handles({{"a place for the bytes", bytes}});
  if (check.failed()) return check.status();
  *bytes = ops::${plain(scratch)}(*context, ${list(sizes, passed)});
  return GPT2_OK;
}`;
}

/** cuda/runtime/api.generated.cpp */
export function api(ops: readonly Op[], scratches: readonly NativeFunction[]): string {
  return `${heading("// The exported ops of both libraries: arguments are checked here, then the library's own op runs (ops.generated.h).")}#include <cstdint>

#include "checks.h"
#include "ops.generated.h"

using gpt2::Check;
namespace ops = gpt2::ops;

${[...ops.map(exported), ...scratches.map(exportedScratch)].join('\n\n')}
`;
}

/** Parameters of a CPU kernel: everything is fp32, so dtypes are left out. */
const kernelParameters = ({ declaration, dtypes }: Op): Parameter[] =>
  declaration.parameters.slice(1).filter(({ cName }) => !dtypes.has(cName));

const inFloats = (parameter: Parameter): string =>
  parameter.isPointer && parameter.base === 'void' ? declared({ ...parameter, base: 'float' }) : checked(parameter);

/** cuda/cpu/kernels.generated.h */
export function kernelTable(ops: readonly Op[], scratches: readonly NativeFunction[]): string {
  const perDevice = ops.filter(({ communicator }) => !communicator);
  const members = [
    ...perDevice.map((op) => `  void (*${plain(op.declaration)})(Task, ${list(kernelParameters(op), inFloats)});`),
    ...scratches.map(
      (scratch) => `  int64_t (*${plain(scratch)})(int threads, ${list(sizesOfScratch(scratch), checked)});`,
    ),
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
    if (isCausal) return [`causal(${named}, ${dimensions.join(', ')})`];
    return below === undefined ? [] : [`ids(${named}, ${count(tensor)}, ${orNone ? -1 : 0}, ${below})`];
  });
}

function dispatch(op: Op): string {
  const { declaration, dtypes } = op;
  const checks = [
    ...idChecks(op),
    ...[...dtypes].map((dtype) => `that(${dtype} == GPT2_FP32, "${dtype} fp32 (0), got " + std::to_string(${dtype}))`),
  ];
  const guard = `  Check check(&context, "${declaration.symbol}");
  if (check.${checks.join('.')}.failed()) return check.status();
`;
  const args = list(kernelParameters(op), (parameter) =>
    parameter.isPointer && parameter.base === 'void' ? `floats(${parameter.cName})` : parameter.cName,
  );
  return `int ${plain(declaration)}(${list(declaration.parameters, checked)}) {
${checks.length > 0 ? guard : ''}  kernels_of(context).${plain(declaration)}(task_of(context), ${args});
  return GPT2_OK;
}`;
}

function scratchDispatch(scratch: NativeFunction): string {
  const sizes = sizesOfScratch(scratch);
  return `int64_t ${plain(scratch)}(const gpt2_context &context, ${list(sizes, checked)}) {
  const int64_t floats = kernels_of(context).${plain(scratch)}(threads_of(context), ${list(sizes, ({ cName }) => cName)});
  return floats * static_cast<int64_t>(sizeof(float));
}`;
}

/** cuda/cpu/ops.generated.cpp */
export function cpuOps(ops: readonly Op[], scratches: readonly NativeFunction[]): string {
  const perDevice = ops.filter(({ communicator }) => !communicator);
  return `${heading("// The ops on the CPU: passes each to the kernel of the context's code path. Collectives are in collectives.cpp.")}#include "../runtime/ops.generated.h"

#include "../runtime/checks.h"
#include "context.h"

namespace gpt2::ops {

namespace {

Task task_of(gpt2_context &context) { return cpu(context).task(); }
const Kernels &kernels_of(const gpt2_context &context) { return *static_cast<const CpuContext &>(context).kernels; }
int threads_of(const gpt2_context &context) { return static_cast<const CpuContext &>(context).pool->threads(); }

const float *floats(const void *tensor) { return static_cast<const float *>(tensor); }
float *floats(void *tensor) { return static_cast<float *>(tensor); }

}  // namespace

${[...perDevice.map(dispatch), ...scratches.map(scratchDispatch)].join('\n\n')}

}  // namespace gpt2::ops
`;
}
