// Reads, checks and writes llm.c's file of multiple-choice questions (HellaSwag): 256 int32 (magic 20240522, version 1, number of
// questions, bytes of the longest question), then the uint16 words of each question.
import { Gpt2Error, gpt2Error, onCommandLine } from '../../base/errors.ts';
import { readWholeFile } from '../../base/files/regular-file.ts';
import { writeDurably } from './shard.ts';

const magic = 20240522;
const version = 1;
const headerBytes = 1024;
/** The first word of a question. It marks the start, so the tokens of questions must not include this id. */
const startMark = 65535;
/** Number of words (uint16) before a context's tokens: start mark, bytes, index, label, number of completions, length of the context. */
const fixedWords = 6;
/** Limits of a file and of a question, because the format stores a question's index and size as uint16. */
const mostQuestions = 65535;
const mostBytes = 65535;

export interface Question {
  /** Index of the right completion. */
  readonly label: number;
  readonly context: Uint16Array;
  /** Tokens of two or more completions, none of them empty. */
  readonly completions: readonly Uint16Array[];
}

/** All questions of a file. @throws Gpt2Error naming the damaged question */
export function readQuestions(path: string): Question[] {
  const refuse = (what: string): never => {
    throw gpt2Error`${path} is not a file of multiple-choice questions: ${what}; make it with \`npm run prepro hellaswag\``;
  };
  const bytes = readWhole(path, refuse);
  if (bytes.length < headerBytes) return refuse(`it has ${bytes.length} bytes, less than the header's ${headerBytes}`);
  const header = new Int32Array(bytes.buffer, 0, headerBytes / 4);
  const [foundMagic, foundVersion, count, longest] = header as unknown as number[];
  if (foundMagic !== magic) return refuse(`it begins with ${foundMagic}, not ${magic}`);
  if (foundVersion !== version) return refuse(`its version is ${foundVersion}, not ${version}`);
  if (count! < 1 || count! > mostQuestions) return refuse(`its header says ${count} questions`);
  const field = header.findIndex((value, index) => index > 3 && value !== 0);
  if (field >= 0) return refuse(`int ${field} of its header is ${header[field]}, not 0`);
  if (bytes.length % 2 !== 0) return refuse(`it has ${bytes.length} bytes, an odd number`);
  const words = new Uint16Array(bytes.buffer, headerBytes);
  const questions: Question[] = [];
  let at = 0;
  while (questions.length < count!) {
    const index = questions.length;
    const damaged = (what: string): never => refuse(`question ${index} of ${count} ${what}`);
    if (words.length - at < fixedWords) damaged('is missing or cut off');
    const size = words[at + 1]!;
    if (words[at] !== startMark) damaged(`begins with ${words[at]}, not ${startMark}`);
    if (size % 2 !== 0 || size < 2 * fixedWords) damaged(`says it has ${size} bytes`);
    if (size > longest!) damaged(`has ${size} bytes, the longest according to the header ${longest}`);
    if (at + size / 2 > words.length) damaged('is cut off');
    questions.push(readQuestion(words.subarray(at, at + size / 2), index, damaged));
    at += size / 2;
  }
  if (at !== words.length) return refuse(`${2 * (words.length - at)} bytes follow its last question`);
  return questions;
}

/** Reads a file into new memory, aligned for views of int32 and uint16. */
function readWhole(path: string, refuse: (what: string) => never): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(readWholeFile(path, headerBytes + mostQuestions * mostBytes));
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === undefined) return refuse(message);
    if (code === 'ENOENT') {
      throw gpt2Error`there are no questions in ${path}: run \`npm run prepro hellaswag\`, or name a file${onCommandLine(' with --hellaswag')}`;
    }
    throw new Gpt2Error(`${path} cannot be read: ${message}`, { cause });
  }
}

function readQuestion(words: Uint16Array, index: number, damaged: (what: string) => never): Question {
  const [, , foundIndex, label, count] = words as unknown as number[];
  if (foundIndex !== index) damaged(`has the index ${foundIndex}`);
  if (count! < 2) damaged(`has ${count} completions`);
  if (label! >= count!) damaged(`has the label ${label} for ${count} completions`);
  let at = fixedWords - 1;
  const next = (what: string): Uint16Array => {
    const length = words[at];
    if (length === undefined || length < 1 || at + 1 + length > words.length)
      damaged(`has a ${what} of ${length} tokens`);
    at += 1 + length!;
    const tokens = words.subarray(at - length!, at);
    if (tokens.includes(startMark)) damaged(`has the token ${startMark} in its ${what}`);
    return tokens;
  };
  const context = next('context');
  const completions = Array.from({ length: Math.min(count!, words.length) }, (_, each) => next(`completion ${each}`));
  if (at !== words.length) damaged(`has ${2 * (words.length - at)} bytes after its completions`);
  return { label: label!, context, completions };
}

/**
 * Writes a file of questions under a temporary name, then renames it.
 * @throws Gpt2Error if there are too many questions, one is too long for the format, or the file cannot be written
 */
export function writeQuestions(path: string, questions: readonly Question[]): void {
  if (questions.length < 1 || questions.length > mostQuestions) {
    throw gpt2Error`${path} cannot hold ${questions.length} questions, only 1 to ${mostQuestions}`;
  }
  const parts = questions.map(({ label, context, completions }, index) => {
    const runs = [context, ...completions].map((tokens) => [tokens.length, ...tokens]);
    const words = [startMark, 0, index, label, completions.length, ...runs.flat()];
    if (words.length * 2 > mostBytes) {
      throw gpt2Error`question ${index} is too long for ${path}: ${words.length * 2} bytes of ${mostBytes}`;
    }
    words[1] = words.length * 2;
    return Uint16Array.from(words);
  });
  const header = new Int32Array(headerBytes / 4);
  header.set([magic, version, parts.length, Math.max(...parts.map(({ byteLength }) => byteLength))]);
  const bytes = [header, ...parts].map(({ buffer }) => new Uint8Array(buffer));
  writeDurably(path, bytes);
}
