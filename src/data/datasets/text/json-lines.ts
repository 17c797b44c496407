// Turns a JSON array into lines, one for each element, and finds the field that holds the text in the first lines.
import { Gpt2Error, orElse } from '../../../base/errors.ts';

/** Whether a byte is white space of ASCII. */
export const isSpace = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
const [open, close] = [Buffer.from('[{'), Buffer.from(']}')];

/**
 * Passes on the bytes of a file. If the file is a JSON array, changes `parts` in place so that each element is a line.
 * @throws Gpt2Error if the array is not complete, or more follows the array
 */
export async function* elementsAsLines(parts: AsyncIterable<Uint8Array>, path: string): AsyncGenerator<Uint8Array> {
  const refuse = (what: string) => new Gpt2Error(`${path} is not a valid JSON array: ${what}; write it again`);
  let isArray: boolean | undefined;
  let [depth, inText, isEscaped, isOver] = [0, false, false, false];
  for await (const part of parts) {
    const start = part[0] === 0xef && isArray === undefined ? 3 : 0;
    const first = part.find((byte, at) => at >= start && !isSpace(byte));
    if (isArray === undefined && first !== undefined) isArray = first === open[0];
    for (let at = start; isArray && at < part.length; at++) {
      const byte = part[at]!;
      if (inText) {
        if (byte === 0x22 && !isEscaped) inText = false;
        isEscaped = byte === 0x5c && !isEscaped;
      } else if (isSpace(byte)) part[at] = 0x20;
      else if (isOver) throw refuse('more follows its end');
      else {
        inText = byte === 0x22;
        if (close.includes(byte)) isOver = --depth === 0;
        if (depth === 1 && byte === 0x2c) part[at] = 0x0a;
        // Blanks replace the brackets of the array itself.
        if (depth === 0) part[at] = 0x20;
        if (open.includes(byte)) depth++;
      }
    }
    yield isArray ? part.subarray(start) : part;
  }
  if (isArray && !isOver) throw refuse('it ends too early');
}

/**
 * The only field with text, the same in every line; "text" if each line is a JSON string instead of an object. Undefined if a line
 * has several fields with text or none, if the field differs between lines, or if a line is not JSON.
 */
export function onlyTextField(lines: readonly string[]): string | undefined {
  const fields = new Set(lines.filter((line) => line.trim() !== '').map((line) => textFields(line).join('\0')));
  const [field] = fields;
  return fields.size === 1 && field !== '' && !field!.includes('\0') ? field : undefined;
}

/** The names of an object's fields that hold texts. */
export const textsIn = (value: object | null): string[] =>
  Object.entries(value ?? {}).flatMap(([name, text]) => (typeof text === 'string' ? [name] : []));

const textFields = (line: string): string[] =>
  orElse([], () => {
    const value = JSON.parse(line);
    if (typeof value === 'string') return ['text'];
    return Array.isArray(value) ? [] : textsIn(value);
  });
