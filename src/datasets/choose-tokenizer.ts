// Finds the tokenizer that --tokenizer names for a new data set. That of "char" is made of the text's characters.
import { existsSync } from 'node:fs';
import { Gpt2Error, UsageError } from '../errors.ts';
import { characterTokenizerName, createCharacterTokenizer } from '../tokenizer/character-tokenizer.ts';
import { builtInTokenizers, type Tokenizer, tokenizerNamed } from '../tokenizer/tokenizer.ts';
import { mostIds, readTokenizer } from '../tokenizer/tokenizer-file.ts';

/** The names that --tokenizer takes; it also takes the path of a tokenizer.json. */
export const tokenizerNames: readonly string[] = [...builtInTokenizers.map(({ name }) => name), characterTokenizerName];

/**
 * The tokenizer with a name, or of a file; undefined for "char", which depends on the text.
 * @throws UsageError for an unknown name; Gpt2Error if the file cannot be used
 */
export function chooseTokenizer(name: string): Tokenizer | undefined {
  if (name === characterTokenizerName) return undefined;
  const builtIn = tokenizerNamed(name);
  if (builtIn) return builtIn;
  if (existsSync(name)) return readTokenizer(name);
  if (/[/\\]|\.json$/.test(name)) {
    throw new Gpt2Error(`${name} does not exist; --tokenizer takes ${tokenizerNames.join(', ')}, or a tokenizer.json`);
  }
  throw new UsageError(
    `--tokenizer takes one of ${tokenizerNames.join(', ')}, or a tokenizer.json, not ${JSON.stringify(name)}`,
  );
}

/** @param characters code points @throws Gpt2Error if there are too many */
export function tokenizerOfCharacters(characters: ReadonlySet<number>): Tokenizer {
  if (characters.size <= mostIds) return createCharacterTokenizer(characters);
  throw new Gpt2Error(
    `the text has ${characters.size} different characters, more than the ${mostIds} ids of a token file: give another --tokenizer`,
  );
}
