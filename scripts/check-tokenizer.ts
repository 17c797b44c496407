// Compares our ids with tiktoken's for any number of generated texts, and decodes them again; another seed each time.
//
//   node --import tsx scripts/check-tokenizer.ts [--texts 100000]
import fc from 'fast-check';
import { get_encoding } from 'tiktoken';
import { bytes, decode, encode } from '../src/tokenizer/tokenizer.ts';
import { anyText, longWord } from '../test/tokenizer/texts.ts';
import { readFlags } from './flags.ts';

const { texts } = readFlags({ texts: 100_000 });
const tiktoken = get_encoding('r50k_base');
let characters = 0;
let tokens = 0;
const someText = fc.oneof({ weight: 19, arbitrary: anyText }, { weight: 1, arbitrary: longWord });
fc.assert(
  fc.property(someText, (text) => {
    const ids = encode(text);
    if (ids.join() !== tiktoken.encode_ordinary(text).join()) throw new Error("not tiktoken's ids");
    if (decode(ids) !== text) throw new Error('GPT-2 ids give another text');
    if (decode(encode(text, bytes), bytes) !== text) throw new Error('bytes give another text');
    characters += text.length;
    tokens += ids.length;
  }),
  { numRuns: texts },
);
console.log(`${texts} texts, ${characters} characters, ${tokens} ids: all tiktoken's, all decoded to the same text`);
