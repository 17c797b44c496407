// Reads and writes JSON with a checksum: the last field, `sha256`, covers all other lines. To compute it by hand:
// grep -v '^  "sha256"' manifest.json | sha256sum
import { hash } from 'node:crypto';
import { largestDescription, readTextFile } from './regular-file.ts';
import { parseJson } from './strict-text.ts';

const field = 'sha256';
const lineStart = `  "${field}"`;

/** An object as JSON text, with its checksum last. */
export function checkedJson(value: object): string {
  const text = `${JSON.stringify({ ...value, [field]: '' }, null, 2)}\n`;
  return text.replace(`${lineStart}: ""\n}`, `${lineStart}: "${hashOfOthers(text)}"\n}`);
}

export type CheckedJson = ReturnType<typeof readCheckedJson>;

/**
 * Reads a JSON file of at most 16 MiB. Files of earlier versions have no checksum.
 * @returns the value without the checksum; `check` throws an Error if the file has a checksum that does not match
 * @throws Error if the file cannot be read, or `parseJson` rejects its text
 */
export function readCheckedJson(path: string): { value: unknown; isChecked: boolean; check: () => void } {
  const text = readTextFile(path, largestDescription);
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, field)) {
    return { value, isChecked: false, check: () => {} };
  }
  const { [field]: _, ...rest } = value as Record<string, unknown>;
  const check = () => {
    // Compares the whole checksum line, so that a change of any byte of the file is detected.
    const line = `${lineStart}: "${hashOfOthers(text)}"`;
    if (text.split('\n').filter((each) => each === line).length !== 1) {
      throw new Error('it has changed since it was written: its sha256 differs');
    }
  };
  return { value: rest, isChecked: true, check };
}

function hashOfOthers(text: string): string {
  const others = text.split('\n').filter((line) => !line.startsWith(lineStart));
  return hash('sha256', others.join('\n'));
}
