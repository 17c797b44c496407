// Assigns parameters to optimizers. The assignment determines a run's optimizer state (rows such as AdamW's m and v) and scratch.
import { checkGiven, checkValue } from '../base/checks/given.ts';
import { isClass, UsageError, usageError } from '../base/errors.ts';
import type { Selection } from '../model/arena.ts';
import type { ModelConfig } from '../model/config.ts';
import { type Parameter, parameterTable } from '../model/parameters.ts';
import type { Device } from '../native/device.ts';
import { elementCount } from '../native/element-types.ts';
import type { MatrixShape, Optimizer, StateRow } from './optimizer.ts';

/** One optimizer for all parameters, or a function that returns a parameter's optimizer, always the same object for a parameter. */
export type OptimizerChoice = Optimizer | ((parameter: Parameter) => Optimizer);

/** An optimizer that changes nothing, for a trainer that only computes gradients. */
export const noUpdate: Optimizer = { name: 'none', rows: [], scalars: [], enqueue() {} };

/** A row of optimizer state, such as AdamW's m, and the run's parameters that have this state. */
export interface AssignedRow {
  readonly optimizer: Optimizer;
  readonly row: StateRow;
  readonly selected: Selection;
}

/** The optimizer of a parameter. @throws UsageError if `choice` returns no optimizer, or one that cannot update the parameter */
export function optimizerOf(choice: OptimizerChoice, parameter: Parameter): Optimizer {
  const optimizer = typeof choice === 'function' && !isClass(choice) ? choice(parameter) : (choice as Optimizer);
  const { name, kind } = parameter;
  if (!Array.isArray(optimizer?.rows))
    throw UsageError.takes('optimizer', 'an Optimizer for every parameter', optimizer);
  if (optimizer.accepts?.(parameter) ?? true) return optimizer;
  throw usageError`${optimizer.name} does not update ${name}, a ${kind}; choose another optimizer for it, such as AdamW`;
}

/** The run's optimizers, each once, in the parameter table's order. @throws UsageError if a field of one is missing or invalid */
export function optimizersOf(config: ModelConfig, choice: OptimizerChoice): Optimizer[] {
  const all = parameterTable(config).map((parameter) => {
    const optimizer = optimizerOf(choice, parameter);
    if (optimizerOf(choice, parameter) === optimizer) return optimizer;
    throw usageError`optimizer gives ${parameter.name} another object at each call; create optimizers outside of the function`;
  });
  const different = [...new Set(all)];
  for (const { name, rows, scalars, enqueue } of different) {
    checkValue("an optimizer's enqueue", 'function', enqueue);
    checkValue("an optimizer's scalars", { member: 'flatMap', what: 'an array' }, scalars);
    const row = { name: 'text', dtype: ['fp32'], parameters: 'function', granularity: ['element', 'matrix'] } as const;
    // Only the four known fields are passed: `checkGiven` refuses others, which a row of a user's class may have.
    for (const { name, dtype, parameters, granularity } of rows)
      checkGiven({ name, dtype, parameters, granularity }, row, {});
    for (const { name, at } of scalars) checkGiven({ name, at }, { name: 'text', at: 'function' }, {});
    for (const named of [rows, scalars]) {
      if (new Set(named.map((each) => each.name)).size < named.length)
        throw usageError`two rows or scalars of the optimizer ${name} have one name; give each another`;
    }
  }
  return different;
}

/** The run's rows of optimizer state, such as AdamW's m and v. A row that no parameter uses is left out. */
export function assignedRows(config: ModelConfig, choice: OptimizerChoice): AssignedRow[] {
  const table = parameterTable(config);
  return optimizersOf(config, choice)
    .flatMap((optimizer) =>
      optimizer.rows.map((row) => {
        const selected = (parameter: Parameter) =>
          optimizerOf(choice, parameter) === optimizer && row.parameters(parameter);
        return { optimizer, row, selected };
      }),
    )
    .filter(({ selected }) => table.some(selected));
}

/** Selects the parameters whose optimizer, such as Muon, needs whole matrices: ranks must not divide these matrices. */
export const updatedWhole =
  (choice: OptimizerChoice): Selection =>
  (parameter) =>
    optimizerOf(choice, parameter).rows.some((row) => row.granularity === 'matrix' && row.parameters(parameter));

/** [rows, columns] of each matrix that a parameter holds, padding rows included. */
export const matrixShape = ({ matrices, shape }: Parameter): MatrixShape => [
  shape[0]! / matrices,
  elementCount(shape.slice(1)),
];

/** Reserves workspace for the optimizers' ops. @returns elements of the scratch that the optimizers share: the maximum of their needs */
export function scratchOf(device: Device, config: ModelConfig, choice: OptimizerChoice): number {
  const rows = assignedRows(config, choice);
  const needs = optimizersOf(config, choice).map((optimizer) => {
    const matrixRows = rows.filter(({ row, ...each }) => each.optimizer === optimizer && row.granularity === 'matrix');
    const matrices = parameterTable(config)
      .filter((parameter) => matrixRows.some(({ selected }) => selected(parameter)))
      .flatMap((parameter) => Array.from({ length: parameter.matrices }, () => matrixShape(parameter)));
    return optimizer.scratch?.(device, matrices) ?? 0;
  });
  return Math.max(...needs);
}
