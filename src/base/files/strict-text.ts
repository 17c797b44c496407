// Decodes UTF-8 and parses JSON without the silent losses of Node's functions, which decode an invalid byte as U+FFFD, and keep only
// the last value of a key that occurs twice in an object.
import { isUtf8 } from 'node:buffer';

/** The first fault: "is not UTF-8 at byte 5 (0xff)", where `offset` is added to the byte's index; undefined if all bytes are UTF-8. */
export function faultOfUtf8(bytes: Buffer, offset = 0): string | undefined {
  if (isUtf8(bytes)) return undefined;
  let at = 0;
  for (const character of bytes.toString()) {
    const encoded = Buffer.from(character);
    if (!bytes.subarray(at, at + encoded.length).equals(encoded)) break;
    at += encoded.length;
  }
  return `is not UTF-8 at byte ${offset + at} (0x${bytes[at]!.toString(16)})`;
}

/** The bytes as text. @throws Error naming the first byte that is not UTF-8 */
export function decodeUtf8(bytes: Buffer): string {
  const fault = faultOfUtf8(bytes);
  if (fault !== undefined) throw new Error(`it ${fault}`);
  return bytes.toString();
}

/** Parses JSON. @throws SyntaxError if the text is not JSON, or the same key occurs twice in an object */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const objects: Set<unknown>[] = [];
  const colon = /\s*:/y;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '{') objects.push(new Set());
    if (sign === '}') objects.pop();
    if (sign !== '"') continue;
    const start = at++;
    while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
    colon.lastIndex = at + 1;
    if (!colon.test(text)) continue;
    const key: unknown = JSON.parse(text.slice(start, at + 1));
    const keys = objects.at(-1)!;
    if (keys.has(key)) throw new SyntaxError(`it has the key ${JSON.stringify(key)} twice in one object`);
    keys.add(key);
  }
  return value;
}
