// Formats tables as plain text. Each column is as wide as its widest cell. The first column is aligned left, the others right.

/** A table that the terminal prints and the page shows. */
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly notes: readonly string[];
  /** A command that the page shows below the table, for copying. */
  readonly command?: string;
  /** The violated limits in words; '' if none is violated. */
  readonly outside?: string;
}

export const describeTable = ({ title, head, rows, notes }: Table): string =>
  [title, formatTable([head, ...rows]), ...notes].join('\n');

/** The table as lines of text; the first row is its head. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd();
  return rows.map(line).join('\n');
}
