// Makes src/ops/ops.generated.ts: the contract of each op as data, and a function for each, with arguments by name.
import { camelCase, jsDoc, type NativeFunction, type Parameter } from './header.ts';
import { type Header, namesIn, type Op, type TensorShape, type Where } from './shapes.ts';

const quoted = (values: readonly string[]): string => `[${values.map((value) => `'${value}'`).join(', ')}]`;
const joined = (object: Record<string, string | undefined>): string =>
  Object.entries(object)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => (key === value ? key : `${key}: ${value}`))
    .join(', ');
const text = (value: string | undefined): string | undefined => (value === undefined ? undefined : `'${value}'`);
/** Names of parameters as TypeScript spells them. */
const inTypeScript = (expression: string): string =>
  expression.replace(/[A-Za-z_]\w*/g, (name) => (name === 'NULL' ? 'null' : camelCase(name)));

function typeOf({ parameter, dtype }: TensorShape): string {
  if (dtype === 'gradient') return 'gradient';
  if (dtype !== undefined) return camelCase(dtype);
  return { void: 'element', float: 'fp32', int32_t: 'int32', uint8_t: 'fp8', int8_t: 'int8' }[parameter.base]!;
}

function tensorContract(shape: TensorShape, constants: ReadonlyMap<string, number>): string {
  const dimensions = shape.dimensions.map((size) =>
    inTypeScript(size.replace(/[A-Za-z_]\w*/g, (name) => String(constants.get(name) ?? name))),
  );
  const fields = joined({
    access: text(shape.access),
    type: text(typeOf(shape)),
    shape: quoted(dimensions),
    below: text(shape.below),
    orNone: shape.orNone ? 'true' : undefined,
    by: text(shape.by && camelCase(shape.by)),
    columns: text(shape.columns && inTypeScript(shape.columns)),
    isOptional: shape.isOptional ? 'true' : undefined,
    together: text(shape.together && camelCase(shape.together)),
    where: shape.where && whereContract(shape.where, constants),
    mayBe: shape.mayBe.length > 0 ? quoted(shape.mayBe.map(camelCase)) : undefined,
  });
  return `      ${shape.parameter.name}: { ${fields} },`;
}

function whereContract({ argument, operator, value, orNull }: Where, constants: ReadonlyMap<string, number>): string {
  const number = value === 'NULL' ? 'null' : String(constants.get(value) ?? value);
  return `{ ${joined({ argument: text(camelCase(argument)), operator: text(operator), value: number, orNull: String(orNull) })} }`;
}

/** The arguments that an expression names, and their types. */
function argumentsIn(expression: string, { declaration }: Op): { names: string[]; fields: string } {
  const isPointer = (name: string) => declaration.parameters.some((each) => each.name === name && each.isPointer);
  const names = [...new Set(namesIn(expression))].filter((name) => name !== 'NULL').map(camelCase);
  return { names, fields: names.map((name) => `${name}: ${isPointer(name) ? 'Pointer | null' : 'number'}`).join('; ') };
}

function relation(expression: string, op: Op): string {
  const { names, fields } = argumentsIn(expression, op);
  const condition = inTypeScript(expression).replaceAll(/[=!]=/g, '$&=');
  return `{ text: '${inTypeScript(expression)}', holds: ({ ${names.join(', ')} }: { ${fields} }) => ${condition} }`;
}

function workspace(op: Op): string {
  const { workspace } = op;
  if (!workspace) return '';
  const { scratch } = workspace;
  const { names, fields } = argumentsIn(workspace.args.join(), op);
  const sizes = joined(
    Object.fromEntries(
      scratch.parameters.slice(2).map(({ name, isFlag }, index) => {
        const value = inTypeScript(workspace.args[index]!);
        return [name, isFlag && namesIn(value).length > 0 ? `${value} ? 1 : 0` : value];
      }),
    ),
  );
  return `\n    workspace: ({ ${names.join(', ')} }: { ${fields} }) => ({ name: '${scratch.name}', sizes: { ${sizes} } }),`;
}

function contract(op: Op, constants: ReadonlyMap<string, number>): string {
  const { declaration, tensors, relations, sizes } = op;
  const flags = flagsOf(op).map(({ name }) => name);
  return `  ${declaration.name}: {
    name: '${declaration.name}',
    symbol: '${declaration.symbol}',
    formula: ${JSON.stringify(formulaOf(declaration))},
    tensors: {
${tensors.map((tensor) => tensorContract(tensor, constants)).join('\n')}
    },
    sizes: ${quoted(sizes.map(({ name }) => name))},
    scalars: ${quoted(scalarsOf(op).map(({ name }) => name))},
    flags: ${quoted(flags)},${op.communicator ? '\n    hasRanks: true,' : ''}
    relations: [${relations.map((each) => relation(each, op)).join(', ')}],${workspace(op)}
  },`;
}

/** The first sentence of the comment, without the prefix gpt2_ of names. */
const formulaOf = ({ comment }: NativeFunction): string =>
  /^.*?(?=\.(?:\s|$))/s.exec(comment)![0].replaceAll(/\s+/g, ' ').replaceAll('gpt2_', '');

const flagsOf = ({ declaration }: Op): Parameter[] => declaration.parameters.filter(({ isFlag }) => isFlag);

/** Arguments that are neither tensors nor sizes nor flags nor dtypes. */
const scalarsOf = ({ declaration, dtypes, sizes }: Op): Parameter[] =>
  declaration.parameters.filter(
    (parameter) =>
      !(parameter.isPointer || parameter.isFlag || sizes.includes(parameter) || dtypes.has(parameter.cName)),
  );

/** Sizes that the caller must pass: no required tensor's shape has the size, except in a quotient or after ">=". */
function givenSizes({ tensors, sizes }: Op): Parameter[] {
  const required = tensors.filter(({ isOptional }) => !isOptional).flatMap(({ dimensions }) => dimensions);
  const inShapes = new Set(required.filter((size) => !/^>=|\//.test(size)));
  const names = new Set([...inShapes].flatMap((size) => namesIn(size.replace(/^\d+/, ''))));
  return sizes.filter(({ cName }) => !names.has(cName));
}

function opFunction(op: Op): string {
  const { declaration, tensors } = op;
  const fields = [
    ...tensors.map(({ parameter, isOptional }) => `${parameter.name}: Tensor${isOptional ? ' | null' : ''}`),
    ...(op.communicator ? ['communicator: Pointer | null'] : []),
    ...[...givenSizes(op), ...scalarsOf(op)].map(({ name }) => `${name}: number`),
    ...flagsOf(op).map(({ name }) => `${name}: boolean`),
  ];
  return `${jsDoc(declaration.comment)}export function ${declaration.name}(device: Device, args: { ${fields.join('; ')} }): void {
  enqueue(device, contracts.${declaration.name}, args);
}`;
}

function scratchFunction({ name, parameters, comment }: NativeFunction): string {
  const sizes = parameters.slice(2).map((size) => `${size.name}: ${size.isFlag ? 'boolean' : 'number'}`);
  return `${jsDoc(comment || 'Bytes of workspace.')}export const ${name} = (device: Device, sizes: { ${sizes.join('; ')} }): number =>
  scratch(device, '${name}', sizes);`;
}

export function ops({ ops: all, scratches, constants }: Header): string {
  // Ops that need a communicator are not here: src/ops/collectives.ts has them.
  const perDevice = all.filter(({ communicator }) => communicator !== 'required');
  return `// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// Every op: its contract as data, and a function that checks its arguments against the contract and calls the library.
import type { Pointer } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/tensor.ts';
import type { Device } from '../native/device.ts';
import { type OpContract, scratch } from './contract.ts';
import { enqueue } from './enqueue.ts';

export const contracts = {
${all.map((op) => contract(op, constants)).join('\n')}
} as const satisfies Record<string, OpContract>;

${perDevice.map(opFunction).join('\n\n')}

${scratches.map(scratchFunction).join('\n\n')}
`;
}
