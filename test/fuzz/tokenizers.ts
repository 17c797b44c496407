// Damaged tokenizer.json files of four kinds, and files on which the package tokenizers is known to crash. tokenizers.slow.test.ts reads them.
import { readFileSync } from 'node:fs';
import type { Random } from '../../src/ops/cases/case-numbers.ts';
import { mutate } from './mutate.ts';

type Json = Record<string, unknown>;
const fixture = (name: string): Json =>
  JSON.parse(readFileSync(new URL(`../fixtures/tokenizers/${name}.json`, import.meta.url), 'utf8')) as Json;

export const byteLevel = fixture('byte-level') as Json & {
  added_tokens: { content: string }[];
  model: { vocab: Record<string, number>; merges: string[][] };
};
const wordPiece = fixture('word-piece');
const unigram = fixture('unigram') as Json & { model: Json };

/** The byte-level file without the bytes that no merge needs: digits, accents and other scripts have no ids. */
export function withoutAlphabet(): Json {
  const { vocab, merges } = byteLevel.model;
  const used = new Set(merges.flat());
  const kept = Object.keys(vocab).filter((token) => token.length > 1 || used.has(token));
  const ids = new Map(kept.map((token, id) => [token, id]));
  const added = byteLevel.added_tokens.map((token) => ({ ...token, id: ids.get(token.content) ?? kept.length }));
  return { ...byteLevel, added_tokens: added, model: { ...byteLevel.model, vocab: Object.fromEntries(ids) } };
}

const charsmap = (...numbers: number[]) => ({
  type: 'Precompiled',
  precompiled_charsmap: Buffer.from(Uint32Array.from(numbers).buffer).toString('base64'),
});
const split = (Regex: string) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false });
export const replace = (pattern: object, content: string) => ({ type: 'Replace', pattern, content });

/** Each ends a process of Node that opens it, or encodes or decodes with it. */
export const crashing: Readonly<Record<string, Json>> = {
  'a table of characters that is none': { ...unigram, normalizer: charsmap(0x41) },
  'a table of characters that points outside': { ...unigram, normalizer: charsmap(16, 0xffffffff, 0xffffffff, 0, 0) },
  'a prefix longer than tokens': { ...byteLevel, model: { ...byteLevel.model, continuing_subword_prefix: '##' } },
  'pieces of no characters': { ...byteLevel, pre_tokenizer: { type: 'FixedLength', length: 0 } },
  'nothing that is replaced by something': { ...byteLevel, normalizer: replace({ String: '' }, 'x') },
  'nothing at the start': { ...byteLevel, normalizer: { type: 'Prepend', prepend: '' } },
  'more stripped than there is': { ...wordPiece, decoder: { type: 'Strip', content: 'a', start: 100, stop: 100 } },
  'a pattern that takes for ever': { ...byteLevel, pre_tokenizer: split('(l+l+)+y') },
};

const odd = [
  ...[0, -1, 1, 0.5, 99, 65_535, 4_294_967_295, 1e300],
  ...['', 'a', '##', 'é', '\u0000', 'a'.repeat(999), null, true, [], {}],
];
const parts: Readonly<Record<string, readonly Json[]>> = {
  normalizer: [
    ...['NFC', 'NFKD', 'Lowercase', 'StripAccents', 'Nmt', 'BertNormalizer', 'ByteLevel'].map((type) => ({ type })),
    { type: 'Strip', strip_left: true, strip_right: true },
    ...[replace({ String: 'e' }, 'ee'), replace({ Regex: '[a-m]' }, ''), charsmap(4, 7, 1), charsmap(4, 0xfffffff, 1)],
  ],
  pre_tokenizer: [
    ...['Whitespace', 'WhitespaceSplit', 'BertPreTokenizer', 'UnicodeScripts', 'Punctuation'].map((type) => ({ type })),
    ...[split('\\w+|.'), split('('), split('(?<a>x)\\k<a>|')],
    { type: 'ByteLevel', add_prefix_space: true, trim_offsets: false, use_regex: false },
    { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
    { type: 'Digits', individual_digits: true },
    { type: 'FixedLength', length: 3 },
  ],
  decoder: [
    ...['ByteFallback', 'Fuse', 'ByteLevel'].map((type) => ({ type })),
    { type: 'WordPiece', prefix: '##', cleanup: true },
    { type: 'BPEDecoder', suffix: '' },
    { type: 'CTC', pad_token: 'e', word_delimiter_token: '|', cleanup: true },
    { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
    { type: 'Strip', content: ' ', start: 1, stop: 1 },
  ],
  post_processor: [{ type: 'ByteLevel' }, { type: 'BertProcessing', sep: ['x', 1], cls: ['y', 0] }],
};

/** A file with one to three changes of its values, its parts or its bytes. */
export function mutatedTokenizer(random: Random): string {
  const below = (count: number) => Math.floor(random.uniform() * count);
  const pick = <T>(from: readonly T[]): T => from[below(from.length)]!;
  const file = structuredClone(pick([byteLevel, wordPiece, unigram, withoutAlphabet()]));
  const changes = [
    () => {
      const name = pick(Object.keys(parts));
      const [one, other] = structuredClone([pick(parts[name]!), pick(parts[name]!)]) as [Json, Json];
      const list = { normalizer: 'normalizers', pre_tokenizer: 'pretokenizers', decoder: 'decoders' }[name];
      file[name] = list !== undefined && random.uniform() < 0.4 ? { type: 'Sequence', [list]: [one, other] } : one;
    },
    () => {
      // Down from the top, so that the few settings are hit as often as the many tokens.
      let at: Json = file;
      for (;;) {
        const key = pick(Object.keys(at));
        const value = at[key];
        if (value !== null && typeof value === 'object' && Object.keys(value).length > 0 && random.uniform() < 0.9) {
          at = value as Json;
          continue;
        }
        if (random.uniform() < 0.2) delete at[key];
        else at[key] = random.uniform() < 0.1 ? structuredClone(file) : pick(odd);
        return;
      }
    },
    () => {
      const model = structuredClone(pick([byteLevel, wordPiece, unigram]).model) as Json;
      const setting = pick('unk_token unk_id byte_fallback ignore_merges max_input_chars_per_word fuse_unk'.split(' '));
      file.model = { ...(random.uniform() < 0.3 ? model : (file.model as Json)), [setting]: pick(odd) };
    },
  ];
  for (let count = 1 + below(3); count > 0; count--) if (Object.keys(file).length > 0) pick(changes)();
  const text = JSON.stringify(file);
  return random.uniform() < 0.15 ? Buffer.from(mutate(random, [Buffer.from(text)])).toString() : text;
}
