// Writes a command's output: results as JSON or lines, notices, and files named by a flag.
import { writeFileSync } from 'node:fs';
import { asTyped, explained, jsonText } from '../program.ts';

/** One line of JSON. NaN and infinities, which JSON lacks, become text, as in the run log. */
export const jsonLine = (value: object): string => `${jsonText(value)}\n`;

export function printResult(value: object, lines: readonly string[], json: boolean | undefined): void {
  process.stdout.write(json ? jsonLine(value) : asTyped(`${lines.join('\n')}\n`));
}

export const notice = (text: string): void => void process.stderr.write(`${text}\n`);

/** Writes a result file. @param what noun for the file in errors: "plot" @throws Gpt2Error with the path, and with `flag` as advice */
export function writeResult(what: string, path: string, content: string | Buffer, flag: string): void {
  explained(`cannot write the ${what} ${path}`, `name another file with ${flag}`, () => writeFileSync(path, content));
}
