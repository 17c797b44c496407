// The numbers that the ranks of collectives.ts start with, for them and for the tests of their results.
import type { ParameterCopy } from '../../src/model/arena.ts';
import { parameterTable, realCount } from '../../src/model/parameters.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { tinyConfig } from './tiny-model.ts';

/** The numbers that a rank starts with. */
export const startOf = (rank: number, count: number): Float32Array => new Random(rank + 1).normals(count, 10 ** rank);

/** Writes numbers that are the same on every rank to a copy of the tiny model's parameters. */
export function fillCopy(copy: ParameterCopy): void {
  const random = new Random(1);
  for (const parameter of parameterTable(tinyConfig)) copy.write(parameter, random.normals(realCount(parameter)));
}
