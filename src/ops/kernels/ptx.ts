// Replaces inline PTX by C++ that calls functions of cuda/emulator/ptx.h. An instruction that the table lacks is an error with its line.
import { CompileError } from '../../base/errors.ts';
import { endOf } from './brackets.ts';

const types: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['b', 'u'].flatMap((kind) => [8, 16, 32, 64].map((bits) => [kind + bits, `uint${bits}_t`]))),
  ...Object.fromEntries([8, 16, 32, 64].map((bits) => [`s${bits}`, `int${bits}_t`])),
  f32: 'float',
  f64: 'double',
};
const type = String.raw`\.(?<type>[busf](?:8|16|32|64))`;

const ptx = '::gpt2_emulator::ptx::';
/** C++ expressions for PTX's special registers, such as %laneid. */
const registers: Readonly<Record<string, string>> = {
  laneid: '::gpt2_emulator::lane()',
  warpid: '(::gpt2_emulator::linear_thread() / 32)',
  lanemask_lt: '((1u << ::gpt2_emulator::lane()) - 1)',
  lanemask_le: '((2u << ::gpt2_emulator::lane()) - 1)',
  lanemask_eq: '(1u << ::gpt2_emulator::lane())',
  lanemask_ge: '(~0u << ::gpt2_emulator::lane())',
  lanemask_gt: '(~1u << ::gpt2_emulator::lane())',
  clock: '::clock64()',
  clock64: '::clock64()',
  globaltimer: '::__globaltimer()',
  ...Object.fromEntries(
    Object.entries({ tid: 'threadIdx', ntid: 'blockDim', ctaid: 'blockIdx', nctaid: 'gridDim' }).flatMap(([name, of]) =>
      ['x', 'y', 'z'].map((axis) => [`${name}.${axis}`, `::${of}.${axis}`]),
    ),
  ),
};

const cache = String.raw`(?:\.(?:nc|c[agsv]|lu|wb|wt|L1::\w+|L2::\d+B))*(?:\.v[24])?`;
const memory = String.raw`(?:\.volatile)?(?:\.global|(?<shared>\.shared(?:::cta)?))?${cache}${type}`;
const skip = '(void)0';
const binary: Readonly<Record<string, string>> = {
  add: '+',
  sub: '-',
  mul: '*',
  'mul.lo': '*',
  and: '&',
  or: '|',
  xor: '^',
};
/** Parts of the names of CUDA's conversion functions, such as __float2int_rn, by PTX's name of a type or letter of a rounding. */
const converted: Readonly<Record<string, string>> = {
  ...{ s32: 'int', u32: 'uint', s64: 'll', u64: 'ull', f32: 'float', f64: 'double' },
  ...{ n: 'rn', z: 'rz', m: 'rd', p: 'ru' },
};
const elements: Readonly<Record<string, number>> = { tf32: 1, f16: 2, bf16: 2 };

const call = (name: string, ...values: readonly string[]): string => `${ptx}${name}(${values.join(', ')})`;
const as = (to: string | undefined, value: string): string => call(`as<${types[to!]}>`, value);
const set = (on: Operands, value: string): string => call('set', on.at(0), value);

/** The operands of a PTX instruction as C++ expressions. @param register returns a register's name in C++ */
function operandsOf(texts: readonly string[], register: (name: string) => string) {
  const value = (text: string): string => {
    const [, bits] = /^0[fF]([\da-fA-F]{8})$/.exec(text) ?? [];
    if (bits !== undefined) return `::__uint_as_float(0x${bits})`;
    return /^-?(0x[\da-fA-F]+|\d+(\.\d+)?)U?$/.test(text) ? text : register(text);
  };
  /** The elements of an operand: the registers of a vector "{%0, %1}", or a single register or number. */
  const list = (index: number) => (texts[index]?.match(/[^{},\s]+/g) ?? []).map(value);
  return {
    count: texts.length,
    list,
    cast: (index: number, to: string) => list(index).map((each) => as(to, each)),
    at: (index: number): string => list(index)[0] ?? register(''),
    address(index: number, isShared: boolean): string {
      const [, base = '', offset = '0'] = /^\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\w+)\s*)?\]$/.exec(texts[index] ?? '') ?? [];
      return call(`at<${isShared}>`, value(base), value(offset));
    },
  };
}
type Operands = ReturnType<typeof operandsOf>;

/** PTX instructions: a pattern, and a function that returns the C++ for the operands, or undefined if it does not support them. */
const instructions: readonly (readonly [RegExp, (on: Operands, found: RegExpExecArray) => string | undefined])[] = [
  [RegExp(`^mov${type}$`), (on, [, to]) => set(on, as(to, on.at(1)))],
  [
    RegExp(`^ld${memory}$`),
    (on, { groups: { shared, type } = {} }) => call(`load<${types[type!]}>`, on.address(1, !!shared), ...on.list(0)),
  ],
  [
    RegExp(`^st${memory}$`),
    (on, { groups: { shared, type } = {} }) => call(`store<${types[type!]}>`, on.address(0, !!shared), ...on.list(1)),
  ],
  [/^prefetchu?\./, () => skip],
  [
    /^cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\d+B)?$/,
    (on) => {
      const zeros = on.count > 3 ? `${on.at(2)} - ${on.at(3)}` : '0';
      return `::__pipeline_memcpy_async(${on.address(0, true)}, ${on.address(1, false)}, ${on.at(2)}, ${zeros})`;
    },
  ],
  [/^cp\.async\.commit_group$/, () => '::__pipeline_commit()'],
  [/^cp\.async\.wait_group$/, (on) => `::__pipeline_wait_prior(${on.at(0)})`],
  [/^cp\.async\.wait_all$/, () => '(::__pipeline_commit(), ::__pipeline_wait_prior(0))'],
  [
    /^ldmatrix\.sync\.aligned(?:\.m8n8|\.x[124]|\.trans)+\.shared(?:::cta)?\.b16$/,
    (on, [name]) => call(`load_matrices<${name.includes('.trans')}>`, on.address(1, true), ...on.list(0)),
  ],
  [
    /^mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.(f32|f16)\.(tf32|f16|bf16)\.\3\.\2$/,
    (on, [, k, sum, operand]) => {
      const steps = Number(k) / 4 / elements[operand!]!;
      if (![1, 2].includes(steps)) return undefined;
      const counts = [2 * steps, steps, sum === 'f16' ? 2 : 4];
      if (counts.some((count, index) => on.list(index + 1).length !== count)) return undefined;
      const to = sum === 'f16' ? 'b32' : sum!;
      const array = (index: number, to: string) => `{${on.cast(index, to).join(', ')}}`;
      const options = [ptx + operand, steps, types[to], counts[2]].join(', ');
      return call(`multiply<${options}>`, array(1, 'b32'), array(2, 'b32'), array(3, to), ...on.list(0));
    },
  ],
  [/^cvta\.to\.shared\.u(?:32|64)$/, (on) => set(on, `uint64_t(uint32_t(${as('u64', on.at(1))}))`)],
  [/^cvta\.shared\.u(?:32|64)$/, (on) => set(on, `reinterpret_cast<uintptr_t>(${ptx}at<true>(${on.at(1)}))`)],
  [/^cvta(?:\.to)?\.global\.u64$/, (on) => set(on, as('u64', on.at(1)))],
  [/^cvt\.rna\.tf32\.f32$/, (on) => set(on, call('to_tf32', on.at(1)))],
  [/^cvt\.rn\.(bf16|f16)x2\.f32$/, (on, [, to]) => set(on, call(`packed<${ptx}${to}>`, on.at(1), on.at(2)))],
  [/^cvt\.([bus]\d+)\.([bus]\d+)$/, (on, [, to, from]) => set(on, as(to, as(from, on.at(1))))],
  [
    /^cvt\.r([nzmp])(?=i\.[su]\d+\.f|\.f\d+\.[su])i?\.([suf](?:32|64))\.([suf](?:32|64))$/,
    (on, [, round, to, from]) =>
      set(on, `::__${converted[from!]}2${converted[to!]}_${converted[round!]}(${as(from, on.at(1))})`),
  ],
  [/^abs\.(f32|f64)$/, (on, [, of]) => set(on, `::fabs(${as(of, on.at(1))})`)],
  [
    /^(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?$/,
    (on) => (on.count === 1 && on.at(0) === '0' ? '::__syncthreads()' : undefined),
  ],
  [/^bar\.warp\.sync$/, (on) => `::__syncwarp(${on.at(0)})`],
  [/^(?:membar|fence\.(?:sc|acq_rel))\.\w+$/, () => '::__threadfence()'],
  [
    RegExp(`^(add|sub|mul|mul\\.lo|and|or|xor)(?:(?:\\.rn)?(?:\\.ftz)?(?=\\.f32$))?${type}$`),
    (on, [, name, of]) => set(on, `${types[of!]}(${as(of, on.at(1))} ${binary[name!]} ${as(of, on.at(2))})`),
  ],
  [
    RegExp(`^(min|max)(?:\\.ftz(?=\\.f32$))?${type}$`),
    (on, [, name, of]) => set(on, `::${name}(${as(of, on.at(1))}, ${as(of, on.at(2))})`),
  ],
  [
    /^fma\.rn(?:\.ftz(?=\.f32$))?\.(f32|f64)$/,
    (on, [, of]) => set(on, `::fma(${[1, 2, 3].map((index) => as(of, on.at(index))).join(', ')})`),
  ],
  [
    /^(ex2|lg2|rsqrt|sqrt|sin|cos|tanh)\.(?:approx|(?<=^sqrt\.)rn)(?:\.ftz)?\.f32$/,
    (on, [, name]) => set(on, `::${name!.replace('ex', 'exp').replace('lg', 'log')}f(${as('f32', on.at(1))})`),
  ],
  [/^rcp\.(?:approx|rn)(?:\.ftz)?\.f32$/, (on) => set(on, `1 / ${as('f32', on.at(1))}`)],
  [
    /^lop3\.b32$/,
    (on) => set(on, call('by_table', ...on.cast(1, 'u32'), ...on.cast(2, 'u32'), ...on.cast(3, 'u32'), on.at(4))),
  ],
  [/^bfe\.u(?:32|64)$/, (on) => set(on, call('field', on.at(1), on.at(2), on.at(3)))],
  [/^nanosleep\.u32$/, () => skip],
  [/^trap$/, () => '::__trap()'],
];

/**
 * Replaces every asm statement in the user's code by C++. @throws CompileError for an instruction that is not in the table
 * @param placeOf "file:line" of an offset in `source`
 */
export function withoutPtx(source: string, placeOf: (offset: number) => string): string {
  let [text, end] = ['', 0];
  for (const found of source.matchAll(/\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__))*\s*\(/g)) {
    const open = found.index + found[0].length;
    const close = endOf(source, open, ')');
    try {
      text += source.slice(end, found.index) + rewritten(source.slice(open, close).replaceAll(/^# \d+ .*$/gm, ''));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      const why = `the PTX ${JSON.stringify(error.message)} does not run on a CPU: run this kernel on a GPU, or rewrite it without this`;
      throw new CompileError(`${placeOf(found.index)}: error: ${why}`);
    }
    if (source.slice(found.index, close).includes('\n'))
      text += placeOf(close).replace(/^(.*):(\d+)$/, '\n# $2 "$1"\n');
    end = close + 1;
  }
  return text + source.slice(end);
}

/** C++ for the inside of asm(...): "code" : outputs : inputs : clobbers. @throws RangeError with an instruction not in the table */
function rewritten(statement: string): string {
  const [code] = /^(?:\s*"(?:\\.|[^"\\])*")*/.exec(statement)!;
  const known = new Map<string, string>();
  const made: string[] = [];
  let rest = statement.slice(code.length);
  for (let operand = nextOperand(rest); operand; operand = nextOperand(rest)) {
    const name = `gpt2_${made.length}`;
    const open = operand.index + operand[0].length;
    const close = endOf(rest, open + 1, ')');
    made.push(`auto &&${name} = ${rest.slice(open, close + 1).replaceAll(/\s+/g, ' ')};`);
    known.set(`%${made.length - 1}`, name);
    if (/\d/.test(operand[1]!)) refuse(operand[0]);
    rest = rest.slice(close + 1);
  }
  const lines = [...code.matchAll(/"((?:\\.|[^"\\])*)"/g)].map(([, text]) => text).join('');
  for (const line of lines.replaceAll(/\\[nt]/g, ' ').split(';')) {
    // Removes braces of PTX scopes from the start of the instruction.
    const instruction = line.replace(/^[\s{}]+/, '').trim();
    if (instruction !== '') made.push(translated(instruction, known));
  }
  return `({ ${made.join(' ')} (void)0; })`;
}

const nextOperand = (text: string) => /"[=+&]*(\w+)"\s*(?=\()/.exec(text);

/** One PTX instruction as C++. A declaration of registers (.reg) adds their C++ names to `known`. */
function translated(instruction: string, known: Map<string, string>): string {
  const [, kind, names] = /^\.reg\s+\.(\w+)\s+(.*)$/s.exec(instruction) ?? [];
  if (kind !== undefined) {
    const declared = names!.split(',').map((name) => {
      known.set(name.trim(), `gpt2_register_${known.size}`);
      return `${types[kind] ?? refuse(instruction)} ${known.get(name.trim())};`;
    });
    return declared.join(' ');
  }
  const find = (name: string) =>
    known.get(name) ?? registers[/^%%?(\w+(?:\.[xyz])?)$/.exec(name)?.[1] ?? ''] ?? refuse(instruction);
  const [, name, rest] = /^([\w.:]+)\s*(.*)$/s.exec(instruction) ?? refuse(instruction);
  const operands = rest === '' ? [] : rest!.split(/,(?![^{]*\})/).map((each) => each.trim());
  for (const [pattern, make] of instructions) {
    const found = pattern.exec(name!);
    const code = found && make(operandsOf(operands, find), found);
    if (code) return `${code};`;
  }
  return refuse(instruction);
}

function refuse(text: string): never {
  throw new RangeError(text.replaceAll(/\s+/g, ' '));
}
