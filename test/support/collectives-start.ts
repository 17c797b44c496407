// What the ranks of collectives.ts have, known to them and to whoever checks what came of it.
import { Random } from '../../src/ops/cases/case-numbers.ts';

/** The numbers that a rank starts with. */
export const startOf = (rank: number, count: number): Float32Array => new Random(rank + 1).normals(count, 10 ** rank);
