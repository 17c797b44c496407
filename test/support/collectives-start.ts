// The numbers that the ranks of collectives.ts start with, for them and for the test of their results.
import { Random } from '../../src/ops/cases/case-numbers.ts';

/** The numbers that a rank starts with. */
export const startOf = (rank: number, count: number): Float32Array => new Random(rank + 1).normals(count, 10 ** rank);
