// Finds characters in C++ code that are outside of brackets, strings and character literals.

/** A regular expression for a C++ string, raw string or character literal. */
export const strings = String.raw`(?:u8|[uUL])?R"(?<raw>[^()\s\\]*)\([\s\S]*?\)\k<raw>"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'`;

/** The offset of the first `sign` at or after offset `from`, ignoring signs inside brackets and strings that open after `from`. */
export function endOf(text: string, from: number, sign: ')' | ';' | '}' | '>>>'): number {
  const piece = new RegExp(`${strings}|[()\\[\\]{}]|;|>>\\s*>`, 'g');
  piece.lastIndex = from;
  let depth = 0;
  for (let found = piece.exec(text); found; found = piece.exec(text)) {
    const what = found[0].replaceAll(/\s/g, '');
    if (depth <= 0 && what === sign) return found.index;
    if ('([{'.includes(what)) depth++;
    if (')]}'.includes(what)) depth--;
  }
  return text.length;
}

/** Splits a text at separators, except at separators inside brackets. */
export function split(text: string, separator: string): string[] {
  const pieces = [''];
  const open: string[] = [];
  for (const sign of text.match(/->|<<|[<>]=|[\s\S]/g) ?? []) {
    if (sign === separator && open.length === 0) {
      pieces.push('');
      continue;
    }
    pieces[pieces.length - 1] += sign;
    if ('<([{'.includes(sign)) open.push(sign);
    // A > without an open < is a comparison. So is a < that is still open where the bracket around it closes.
    if (sign === '>' && open.at(-1) === '<') open.pop();
    if (')]}'.includes(sign)) while (open.pop() === '<');
  }
  return pieces;
}
