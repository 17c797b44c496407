// JSON as lines: an array is read with an element in each line, and the field of the text is found in the first lines.
import { Gpt2Error } from '../../errors.ts';

const [space, quote, backslash, comma] = [0x20, 0x22, 0x5c, 0x2c];
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];
const isBlank = (byte: number): boolean => byte === space || (byte >= 0x09 && byte <= 0x0d);

/**
 * The bytes of a file; if it is a JSON array, its elements, one in each line. It writes into the parts that it gets.
 * @throws Gpt2Error if the array is not complete, lacks an element, or more follows it
 */
export async function* elementsAsLines(parts: AsyncIterable<Uint8Array>, path: string): AsyncGenerator<Uint8Array> {
  const refuse = (what: string) => new Gpt2Error(`${path} is not a valid JSON array: ${what}; write it again`);
  let isArray: boolean | undefined;
  let [depth, inText, isEscaped, isEmpty, isOver] = [0, false, false, true, false];
  for await (const part of parts) {
    let start = 0;
    if (isArray === undefined) {
      if (part[0] === 0xef && part[1] === 0xbb && part[2] === 0xbf) start = 3;
      while (start < part.length && isBlank(part[start]!)) start++;
      if (start < part.length) isArray = part[start] === openList;
    }
    if (!isArray) {
      yield part;
      continue;
    }
    let filled = 0;
    for (let at = start; at < part.length; at++) {
      let byte = part[at]!;
      if (inText) {
        if (isEscaped) isEscaped = false;
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote) inText = false;
      } else if (isBlank(byte)) byte = space;
      else if (isOver) throw refuse('more follows its end');
      else {
        if (byte === quote) inText = true;
        if (byte === closeList || byte === closeObject) depth--;
        const divides = depth === 1 && byte === comma;
        if (divides && isEmpty) throw refuse('an element is missing');
        isOver = depth === 0 && byte === closeList;
        // The brackets around all elements are left out.
        const isOuter = isOver || (depth === 0 && byte === openList);
        if (byte === openList || byte === openObject) depth++;
        if (divides) byte = 0x0a;
        else if (isOuter) byte = space;
        isEmpty = divides || (isEmpty && isOuter);
      }
      part[filled++] = byte;
    }
    yield part.subarray(0, filled);
  }
  if (isArray && !isOver) throw refuse('it ends too early');
}

/**
 * The field that is the only text of each of the lines; "text" where each line is a text itself. Undefined if lines have several,
 * none or different ones, or are not JSON.
 */
export function onlyTextField(lines: readonly string[]): string | undefined {
  const fields = new Set<string | undefined>();
  for (const line of lines) {
    if (line.trim() === '') continue;
    const texts = textFields(line);
    fields.add(texts?.length === 1 ? texts[0] : undefined);
  }
  return fields.size === 1 ? [...fields][0] : undefined;
}

function textFields(line: string): string[] | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === 'string') return ['text'];
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    return Object.entries(value).flatMap(([name, of]) => (typeof of === 'string' ? [name] : []));
  } catch {
    return undefined;
  }
}
