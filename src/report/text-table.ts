// Formats tables as plain text: columns are as wide as their widest cell, the first aligned left, the others right.

/** A table of a figure; the terminal prints it, the page shows it. */
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly notes: readonly string[];
  /** A command to copy. */
  readonly command?: string;
  /** The violated limits as text. */
  readonly outside?: string;
}

export const describeTable = ({ title, head, rows, notes }: Table): string =>
  [title, formatTable([head, ...rows]), ...notes].join('\n');

/** Lines of a table; the first row is its head. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd();
  return rows.map(line).join('\n');
}
