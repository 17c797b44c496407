// Counts lines and columns, for messages.

/** The place at which a text begins; columns count characters. */
export const textStart = { line: 1, column: 1 };

export const hasByteOrderMark = ([first, second, third]: Uint8Array): boolean =>
  first === 0xef && second === 0xbb && third === 0xbf;

/** Line and column after `bytes`, UTF-8 text that begins at `from`. A byte order mark at the start of a text has no column. */
export function placeAfter(bytes: Uint8Array, from: typeof textStart): typeof textStart {
  let { line, column } = from;
  if (from === textStart && hasByteOrderMark(bytes)) column--;
  for (const byte of bytes) {
    if (byte === 0x0a) [line, column] = [line + 1, 1];
    else if ((byte & 0xc0) !== 0x80) column++;
  }
  return { line, column };
}
