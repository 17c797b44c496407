// Our ids beside tiktoken's for any number of generated texts, and every text given back; of another seed each time.
//
//   node --import tsx scripts/check-tokenizer.ts [--texts 100000]
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { get_encoding } from 'tiktoken';
import { bytes, decode, encode } from '../src/tokenizer/tokenizer.ts';
import { anyText, longWord } from '../test/tokenizer/texts.ts';

const { values } = parseArgs({ options: { texts: { type: 'string', default: '100000' } } });
const texts = Number(values.texts);
if (!Number.isSafeInteger(texts) || texts < 1)
  throw new Error(`--texts takes a whole number from 1, not ${values.texts}`);
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
console.log(`${texts} texts, ${characters} characters, ${tokens} ids: all tiktoken's, all given back`);
