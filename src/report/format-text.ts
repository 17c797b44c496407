// Formats values, steps, times and tables as text. scale.ts formats the labels of an axis.

/** Four decimals, as llm.c prints losses (two from 100 on). Below 0.01, as for a learning rate, and from 1e8 on: "3.00e-4". */
export function formatValue(value: number): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  if (Math.abs(value) < 1e-2 || Math.abs(value) >= 1e8) return value.toExponential(2);
  return value.toFixed(Math.abs(value) >= 100 ? 2 : 4);
}

export const valueOr = (value: number | null | undefined): string =>
  typeof value === 'number' ? formatValue(value) : '-';

/** Three significant digits, or all digits before the point if there are more: "0.0512", "51.2", "1979". */
export const formatRate = (value: number): string => (value < 999.5 ? value.toPrecision(3) : value.toFixed(0));

/** A whole number with commas: "12,345". */
export const formatCount = (count: number): string => count.toLocaleString('en-US');

/** Seconds as text: "2h03m", "3m07s", "12s". */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours > 0) return `${hours}h${String(minutes).padStart(2, '0')}m`;
  return minutes > 0 ? `${minutes}m${String(rest).padStart(2, '0')}s` : `${rest}s`;
}

/** Month, day, hour and minute of a time in ISO 8601: "11-21 10:02". */
export const shortTime = (time: string): string => time.slice(5, 16).replace('T', ' ');

/** Bytes in the largest fitting unit: "1.23 GiB", "45.6 MiB". */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, power] = [bytes, 0];
  // Divide from 999.5 on, so that three digits are enough: 1000 KiB becomes 0.977 MiB.
  for (; value >= 999.5 && power < units.length - 1; power++) value /= 1024;
  return `${power === 0 ? value : value.toPrecision(3)} ${units[power]}`;
}

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

/** The table as lines of text; the first row is its head. Columns are as wide as their widest cells, all but the first aligned right. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd();
  return rows.map(line).join('\n');
}
