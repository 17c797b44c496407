// Parses the shapes of an op (cuda/gpt2.h states the grammar under "ops") and checks them against the op's parameters.
import type { NativeFunction, Parameter } from './header.ts';

/** An op's use of a tensor: `[N,C]`, `= [N,C]`, `+= [N,C]`, `(accumulate) [N,C]` and so on. */
export type Access = 'read' | '=' | '+=' | 'accumulate' | 'updated' | 'kept' | 'scratch';

export interface TensorShape {
  readonly parameter: Parameter;
  readonly access: Access;
  /** Dimensions as the header spells them: "N", "3C", ">=T", "C/NH", "GPT2_STEP_SIZE". */
  readonly dimensions: readonly string[];
  /** "gradient", or the parameter that gives the dtype. */
  readonly dtype?: string;
  /** For ids: the parameter that every id must be below. */
  readonly below?: string;
  /** For ids: whether -1 stands for no id. */
  readonly orNone: boolean;
  /** Whether each row [T] of the tensor never decreases, and the row's element t is at most t. */
  readonly isCausal: boolean;
  /** The tensor of ids that name the accessed rows. */
  readonly by?: string;
  /** A dimension: the number of accessed elements at the start of each row. */
  readonly columns?: string;
  /** Whether the tensor may be NULL. */
  readonly isOptional: boolean;
  /** The other tensor that is NULL exactly when this tensor is NULL. */
  readonly together?: string;
  readonly where?: Where;
  readonly mayBe: readonly string[];
}

/** A condition on an argument: `argument` == or != `value`. If the condition does not hold, the tensor must be NULL. */
export interface Where {
  readonly argument: string;
  readonly operator: '==' | '!=';
  /** A number, a constant or NULL. */
  readonly value: string;
  /** Whether the tensor may be NULL even if the condition holds. */
  readonly orNull: boolean;
}

export interface Op {
  readonly declaration: NativeFunction;
  readonly tensors: readonly TensorShape[];
  /** Boolean expressions of parameters, as C writes them. */
  readonly relations: readonly string[];
  /** The scratch function and its arguments; undefined if the op needs no workspace. */
  readonly workspace?: { readonly scratch: NativeFunction; readonly args: readonly string[] };
  /** Parameters that give a tensor's dtype. */
  readonly dtypes: ReadonlySet<string>;
  /** Whether the op needs a communicator; undefined if it takes none. */
  readonly communicator?: 'required' | 'optional';
  /** Integer parameters that must be at least 1. */
  readonly sizes: readonly Parameter[];
}

export interface Header {
  readonly functions: readonly NativeFunction[];
  readonly ops: readonly Op[];
  /** The functions that give the bytes of an op's workspace. */
  readonly scratches: readonly NativeFunction[];
  /** Members of all enums. */
  readonly constants: ReadonlyMap<string, number>;
}

type Symbols = ReadonlyMap<string, NativeFunction>;
type Refuse = (problem: string) => never;

const accesses: Record<string, Access> = {
  '': 'read',
  '=': '=',
  '+=': '+=',
  '(accumulate)': 'accumulate',
  '(updated)': 'updated',
  '(kept)': 'kept',
  '(scratch)': 'scratch',
};

const entry =
  /^(?<name>\w+) ?(?<access>=|\+=|\(\w+\)|) \[(?<dimensions>[^\]]+)\](?:: (?<dtype>\w+))?(?: < (?<below>\w+)(?<none> or -1)?)?(?<causal> <= t)?(?: by (?<by>\w+))?(?: first (?<columns>\w+))?(?:(?<optional> or NULL)| with (?<together>\w+))?(?: where (?<argument>\w+) (?<operator>==|!=) (?<value>\w+))?(?: may be (?<first>\w+)(?: or (?<second>\w+))?)?$/;
/** A number; or a name with ">=" or a factor before it, and after it "+" and a number or "/" and a number or name. */
const dimension = /^(?:(?<atLeast>>=)?(?<factor>\d+)?(?<name>[A-Za-z]\w*)(?:\+\d+|\/(?<divisor>\w+))?|\d+)$/;
const relationTokens = /^(?:\s|\d+|[A-Za-z]\w*|<=|>=|==|!=|\|\||&&|[<>+\-*/%()])+$/;

/** The line in an op's shapes for a communicator that may be NULL. A required communicator has no line. */
const orNoRanks = 'communicator or NULL';

const isInteger = ({ base, isPointer }: Parameter): boolean => !isPointer && /^u?int(32|64)_t$/.test(base);
export const namesIn = (expression: string): string[] => expression.match(/[A-Za-z_]\w*/g) ?? [];

/** Splits at separators outside of brackets. */
function split(text: string, separator: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const character of text) {
    if ('[('.includes(character)) depth++;
    if ('])'.includes(character)) depth--;
    if (character === separator && depth === 0) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim());
}

/**
 * The ops of the header, in order, without scratch functions.
 * @param constants enum members, for dimensions and relations
 * @throws Error naming the function and the line that does not parse or does not fit the function's parameters
 */
export function parseOps(functions: readonly NativeFunction[], constants: ReadonlyMap<string, number>): Op[] {
  const symbols = new Map(functions.map((declaration) => [declaration.symbol, declaration]));
  return functions
    .filter(({ isInOps, symbol }) => isInOps && !symbol.endsWith('_scratch'))
    .map((declaration) => parseOp(declaration, symbols, constants));
}

function parseOp(declaration: NativeFunction, symbols: Symbols, constants: ReadonlyMap<string, number>): Op {
  const { symbol, parameters } = declaration;
  const refuse: Refuse = (problem) => {
    throw new Error(`cuda/gpt2.h: the shapes of ${symbol}: ${problem}`);
  };
  const byName = new Map(parameters.map((parameter) => [parameter.cName, parameter]));
  const known = (name: string, line: string): string =>
    byName.has(name) ? name : refuse(`"${line}" names ${name}, which is no parameter`);
  const [list = '', ...clauses] = split(declaration.shapes.replace(/\s+/g, ' ').trim(), ';');
  const lines = split(list, ',');
  const tensors = lines.filter((line) => line !== orNoRanks).map((line) => parseTensor(line, byName, refuse));

  const ofOp = parameters.filter(({ isPointer, base }) => isPointer && !base.startsWith('gpt2_'));
  const wanted = ofOp.map(({ cName }) => cName).join(', ');
  const named = tensors.map(({ parameter }) => parameter.cName).join(', ');
  if (wanted !== named) refuse(`its tensors are ${wanted}, the lines name ${named}`);

  for (const { parameter, together } of tensors) {
    const other = tensors.find(({ parameter: { cName } }) => cName === together);
    if (together && (!other?.isOptional || other.together || other.parameter === parameter)) {
      refuse(`${parameter.cName} is NULL with ${together}, which is not another tensor that is "or NULL" by itself`);
    }
  }

  const ranks = lines.includes(orNoRanks) ? 'optional' : 'required';
  const communicator = parameters.some(({ base }) => base === 'gpt2_communicator') ? ranks : undefined;
  const free = communicator === 'required' ? ['R', 'P'] : [];
  for (const { parameter, together, where } of tensors) {
    if (!where) continue;
    const { argument, value } = where;
    const isTensor = byName.get(argument)!.isPointer;
    if (isTensor !== (value === 'NULL') || !(isTensor || constants.has(value) || /^\d+$/.test(value)) || together) {
      refuse(`cannot read "where ${argument} ${where.operator} ${value}" of ${parameter.cName}`);
    }
  }
  for (const { dimensions, columns = '1', parameter } of tensors) {
    const expressions = [...dimensions, columns].map((text) => text.replace(/^(>=)?\d*/, ''));
    for (const name of expressions.flatMap(namesIn)) {
      if (!constants.has(name) && !free.includes(name)) known(name, `${parameter.cName} [${dimensions}]`);
    }
    for (const size of dimensions) {
      const divisor = dimension.exec(size)?.groups?.divisor;
      if (divisor && (constants.get(divisor) ?? Number(divisor)) === 0) refuse(`"${size}" divides by 0`);
    }
  }
  const relations: string[] = [];
  let workspace: Op['workspace'];
  for (const clause of clauses) {
    const found = /^workspace (\w*)\((.*)\)$/.exec(clause);
    if (!found) {
      if (!relationTokens.test(clause)) refuse(`cannot read "${clause}"`);
      const relation = clause.replace(/[A-Za-z_]\w*/g, (name) => String(constants.get(name) ?? name));
      for (const name of namesIn(relation)) if (name !== 'NULL') known(name, clause);
      relations.push(relation);
      continue;
    }
    const args = split(found[2]!, ',');
    const scratch = symbols.get(found[1] || nextScratch(symbol, symbols)) ?? refuse(`there is no ${found[1]}`);
    const count = scratch.parameters.length - 2;
    if (count !== args.length) refuse(`${scratch.symbol} takes ${count} sizes, "${clause}" gives ${args.length}`);
    for (const name of args.flatMap(namesIn)) known(name, clause);
    workspace = { scratch, args };
  }
  const implied = multiplesOf16(tensors, byName);
  const isStated = (relation: string) =>
    [...relations, ...implied].some((each) => each !== relation && relation.endsWith(`|| ${each}`));
  relations.push(...implied.filter((relation) => !relations.includes(relation) && !isStated(relation)));
  if (byName.has('activation') && !relations.some((relation) => relation.startsWith('activation >= 0'))) {
    relations.push(`activation >= 0 && activation <= ${constants.get('GPT2_RELU_SQUARED')}`);
  }
  const dtypes = new Set(tensors.flatMap(({ dtype }) => (dtype && dtype !== 'gradient' ? [dtype] : [])));
  const hasRange = (name: string) => relations.some((relation) => relation.startsWith(`${name} >= 0`));
  const sizes = parameters.filter(
    (parameter) =>
      isInteger(parameter) && !parameter.isFlag && !dtypes.has(parameter.cName) && !hasRange(parameter.cName),
  );
  return { declaration, tensors, relations, workspace, dtypes, communicator, sizes };
}

/** The symbol of the first scratch function declared after an op. */
function nextScratch(op: string, symbols: Symbols): string {
  const declared = [...symbols.keys()];
  return declared.slice(declared.indexOf(op)).find((symbol) => symbol.endsWith('_scratch')) ?? '';
}

/** The sizes of FP8 tensors that must be multiples of 16, as relations. */
function multiplesOf16(tensors: readonly TensorShape[], byName: ReadonlyMap<string, Parameter>): string[] {
  const relations = tensors
    .filter(({ parameter }) => parameter.base === 'uint8_t')
    .flatMap(({ parameter, isOptional, together, dimensions }) =>
      dimensions
        .filter((size) => size !== 'N' && byName.has(size))
        .map((size) => `${isOptional ? `${together ?? parameter.cName} == NULL || ` : ''}${size} % 16 == 0`),
    );
  return [...new Set(relations)];
}

function parseTensor(line: string, byName: ReadonlyMap<string, Parameter>, refuse: Refuse): TensorShape {
  const match = entry.exec(line)?.groups;
  if (!match) return refuse(`cannot read "${line}"`);
  const { name, access, dimensions, dtype, below, none, by, columns, optional, together, first, second } = match;
  const { argument, operator, value } = match;
  const parameter = byName.get(name!) ?? refuse(`"${line}" is no parameter`);
  const mode = accesses[access!] ?? refuse(`"${access}" in "${line}" is no access`);
  const names = [dtype === 'gradient' ? undefined : dtype, below, by, together, argument, first, second].filter(
    (other) => other !== undefined,
  );
  for (const other of names) if (!byName.has(other)) refuse(`"${line}" names ${other}, which is no parameter`);
  if (parameter.isConst !== (mode === 'read')) refuse(`"${line}" is ${parameter.isConst ? '' : 'not '}const`);
  const sizes = split(dimensions!, ',');
  for (const size of sizes) if (!dimension.test(size)) refuse(`cannot read the dimension "${size}" in "${line}"`);
  const mayBe = [first, second].filter((other) => other !== undefined);
  const isOptional = [optional, together, argument].some((condition) => condition !== undefined);
  const where = argument !== undefined && {
    where: { argument, operator: operator as Where['operator'], value: value!, orNull: optional !== undefined },
  };
  return {
    parameter,
    access: mode,
    dimensions: sizes,
    dtype,
    below,
    orNone: none !== undefined,
    isCausal: match.causal !== undefined,
    by,
    columns,
    isOptional,
    together,
    ...where,
    mayBe,
  };
}
