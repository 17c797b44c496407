// Divides a model's arenas (one buffer of matrices, one of vectors) into spans: neighbouring parameters, or one matrix.
import { arenaLayout, bucketOf, type ParameterCopy, undivided } from '../model/arena.ts';
import type { ModelConfig } from '../model/config.ts';
import { type Parameter, type ParameterKind, parameterTable } from '../model/parameters.ts';
import { type AssignedRow, matrixShape, type OptimizerChoice, optimizerOf } from './assign.ts';
import type { Optimizer } from './optimizer.ts';

export type AllocatedRow = AssignedRow & { readonly copy: ParameterCopy };

/** Neighbouring parameters with the same optimizer and state rows, or one matrix. `start` and `end` are offsets in elements. */
export interface Span {
  readonly kind: ParameterKind;
  readonly optimizer: Optimizer;
  readonly rows: readonly AllocatedRow[];
  readonly start: number;
  readonly end: number;
  /** [rows, columns] of a single matrix; undefined for neighbouring parameters. */
  readonly shape?: readonly number[];
  /** For each state row: the number of this rank's elements in earlier buckets that lack this state, and take no memory in the row. */
  readonly gaps: readonly number[];
}

export function spansOf(
  config: ModelConfig,
  choice: OptimizerChoice,
  allRows: readonly AllocatedRow[],
  division = undivided,
): Span[] {
  const layout = arenaLayout(config, division);
  const startOf = ({ name }: Parameter) => layout.starts.get(name)!;
  const spans = { matrix: [] as Span[], vector: [] as Span[] };
  for (const parameter of parameterTable(config).toSorted((a, b) => startOf(a) - startOf(b))) {
    const { kind, name } = parameter;
    const optimizer = optimizerOf(choice, parameter);
    const rows = allRows.filter(({ selected }) => selected(parameter));
    const bucket = bucketOf(layout, name);
    const { start: bucketStart, count } = layout.buckets[bucket]!;
    const gaps = rows.map(({ copy }) =>
      kind === 'vector' ? 0 : (bucketStart - copy.layout.buckets[bucket]!.start) / division.shares,
    );
    const start = startOf(parameter);
    // A matrix's span ends with its bucket, not at the next parameter, because a state row may have no memory after the row's last bucket.
    const end = kind === 'vector' ? layout.sizes.vector : bucketStart + count;
    const common = { kind, optimizer, rows, gaps };
    const last = spans[kind].at(-1);
    if (rows.some(({ row }) => row.granularity === 'matrix')) {
      spans[kind].push(...matricesOf(parameter, start).map((matrix) => ({ ...common, ...matrix })));
    } else if (!last || last.shape || last.optimizer !== optimizer || !areSame(last.rows, rows)) {
      spans[kind].push({ ...common, start, end });
    } else {
      spans[kind].splice(-1, 1, { ...last, end });
    }
  }
  return [...apart(spans.matrix), ...apart(spans.vector)];
}

/** Cuts off each span where the next span begins. A span includes padding between parameters: updates keep this padding zero. */
const apart = (spans: readonly Span[]): Span[] =>
  spans.map((span, index) => ({ ...span, end: Math.min(span.end, spans[index + 1]?.start ?? span.end) }));

/** Start, end and shape of each matrix that a parameter holds, padding rows included; in elements of the arena. */
function matricesOf(parameter: Parameter, start: number) {
  const [rows, columns] = matrixShape(parameter);
  return Array.from({ length: parameter.matrices }, (_, index) => {
    const first = start + index * rows * columns;
    return { start: first, end: first + rows * columns, shape: [rows, columns] };
  });
}

const areSame = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((each, index) => each === b[index]);
