// Divides the arenas into spans: neighbouring parameters that one call updates, or single matrices.
import { arenaLayout, bucketOf, type ParameterCopy } from '../model/arena.ts';
import type { ModelConfig } from '../model/config.ts';
import { type Parameter, type ParameterKind, parameterTable } from '../model/parameters.ts';
import { type AssignedRow, matrixShape, type OptimizerChoice, optimizerOf } from './assign.ts';
import type { Optimizer } from './optimizer.ts';

export type AllocatedRow = AssignedRow & { readonly copy: ParameterCopy };

/** Neighbouring parameters with the same optimizer and state rows, or one matrix; in elements of their arena. */
export interface Span {
  readonly kind: ParameterKind;
  readonly optimizer: Optimizer;
  readonly rows: readonly AllocatedRow[];
  readonly start: number;
  readonly end: number;
  /** The shape of a matrix; undefined for neighbouring parameters. */
  readonly shape?: readonly number[];
  /** For each row, elements of earlier buckets that this rank holds but the row does not. */
  readonly gaps: readonly number[];
}

/** The spans of all parameters. */
export function spansOf(
  config: ModelConfig,
  choice: OptimizerChoice,
  allRows: readonly AllocatedRow[],
  ranks = 1,
): Span[] {
  const layout = arenaLayout(config, ranks);
  const spans = { matrix: [] as Span[], vector: [] as Span[] };
  for (const parameter of parameterTable(config)) {
    const { kind, name } = parameter;
    const optimizer = optimizerOf(choice, parameter);
    const rows = allRows.filter(({ selected }) => selected(parameter));
    const gaps = rows.map(({ copy }) => {
      if (kind === 'vector') return 0;
      const bucket = bucketOf(config, name);
      return (layout.buckets[bucket]!.start - copy.layout.buckets[bucket]!.start) / ranks;
    });
    const start = layout.starts.get(name)!;
    const common = { kind, optimizer, rows, gaps };
    const last = spans[kind].at(-1);
    if (rows.some(({ row }) => row.granularity === 'matrix')) {
      spans[kind].push(...matricesOf(parameter, start).map((matrix) => ({ ...common, ...matrix })));
    } else if (!last || last.shape || last.optimizer !== optimizer || !areSame(last.rows, rows)) {
      spans[kind].push({ ...common, start, end: start });
    }
  }
  return [...closed(spans.matrix, layout.sizes.matrix), ...closed(spans.vector, layout.sizes.vector)];
}

/** Ends each span of neighbours at the next span's start: padding is zero, and an update keeps it zero. */
const closed = (spans: readonly Span[], size: number): Span[] =>
  spans.map((span, index) => (span.shape ? span : { ...span, end: spans[index + 1]?.start ?? size }));

/** Each matrix of a parameter, with its padding rows. */
function matricesOf(parameter: Parameter, start: number) {
  const [rows, columns] = matrixShape(parameter);
  return Array.from({ length: parameter.matrices }, (_, index) => {
    const first = start + index * rows * columns;
    return { start: first, end: first + rows * columns, shape: [rows, columns] };
  });
}

const areSame = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((each, index) => each === b[index]);
