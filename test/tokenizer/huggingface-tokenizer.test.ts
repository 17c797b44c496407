// Tokenizers of tokenizer.json files: the ids and texts that scripts/record-tokenizers.py recorded with the Hugging Face library,
// decoding piece by piece, and files that cannot be used.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { chooseTokenizer } from '../../src/data/choose-tokenizer.ts';
import { decode, encode, readDatasetTokenizer, readTokenizer, StreamDecoder } from '../../src/index.ts';
import { tokenizerFiles } from '../../src/tokenizer/gpt2-files.ts';
import { huggingFaceTokenizer } from '../../src/tokenizer/huggingface-tokenizer.ts';
import { byteLengths, bytes, gpt2, noByteLengths, promptIds } from '../../src/tokenizer/tokenizer.ts';
import { isSameTokenizer, parseTokenizer } from '../../src/tokenizer/tokenizer-file.ts';
import { trainTokenizer } from '../../src/tokenizer/train-tokenizer.ts';
import { readModelFolder } from '../../src/weights/formats/huggingface.ts';
import { withoutAlphabet } from '../fuzz/tokenizers.ts';
import { workplace } from '../support/cli.ts';
import { jsonl, type More, ofJsonl, prepared, tokensIn } from '../support/prepared.ts';

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/tokenizers/${name}.json`, import.meta.url));
interface Records {
  readonly texts: readonly string[];
  readonly tokenizers: Record<string, { ids: readonly string[]; decoded: Record<string, string> }>;
}
const { texts, tokenizers } = JSON.parse(readFileSync(fixture('records'), 'utf8')) as Records;
const names = Object.keys(tokenizers);

const place = workplace();

const recorded = (name: string) =>
  tokenizers[name]!.ids.map((ids, index) => ({
    text: texts[index]!,
    ids: ids === '' ? [] : ids.split(' ').map(Number),
    decoded: tokenizers[name]!.decoded[index] ?? texts[index]!,
  }));

const byteLevel = JSON.parse(readFileSync(fixture('byte-level'), 'utf8'));

describe.each(names)('%s', (name) => {
  const tokenizer = readTokenizer(fixture(name));

  it('gives the ids of the Hugging Face library for 1,000 texts', () => {
    expect(texts).toHaveLength(1000);
    const { ids: found } = tokenizer.encodeAll!(texts);
    for (const [index, { text, ids }] of recorded(name).entries())
      expect([...found[index]!], JSON.stringify(text)).toEqual(ids);
  });

  it('decodes them as the library does', () => {
    for (const { ids, decoded } of recorded(name)) expect(decode(ids, tokenizer), `${ids}`).toBe(decoded);
  });

  it('decodes id by id, and after a prompt', () => {
    for (const [index, { ids, decoded }] of recorded(name).entries()) {
      // The clean-up of the decoder for word pieces reaches back to text that was shown: " ' s" becomes "'s".
      if (name === 'word-piece' && /'/.test(decoded)) continue;
      const cut = index % 2 === 0 ? 0 : Math.floor(ids.length / 2);
      const [prompt, rest] = [ids.slice(0, cut), ids.slice(cut)];
      const decoder = new StreamDecoder(tokenizer, prompt);
      const shown = rest.map((id) => decoder.push(id)).join('') + decoder.end();
      const before = decode(prompt, tokenizer);
      if (decoded.startsWith(before)) expect(before + shown, `${ids} from ${cut}`).toBe(decoded);
    }
  });
});

it('waits for an answer, also after a wake that came for the one before', () => {
  const tokenizer = readTokenizer(fixture(names[0]!));
  const wait = vi.spyOn(Atomics, 'wait').mockReturnValueOnce('ok');
  expect([...encode(texts[1]!, tokenizer)].join(' ')).toBe(tokenizers[names[0]!]!.ids[1]);
  expect(wait.mock.calls.length).toBeGreaterThan(1);
  wait.mockRestore();
});

it('at most 8 tokenizers have a process; the others start one when asked', () => {
  const opened = Array.from({ length: 10 }, () => readTokenizer(fixture(names[0]!)));
  for (const tokenizer of [...opened, opened[0]!])
    expect([...encode(texts[1]!, tokenizer)].join(' ')).toBe(tokenizers[names[0]!]!.ids[1]);
  const { stdout } = spawnSync('pgrep', ['-P', `${process.pid}`, '-f', 'huggingface-process'], { encoding: 'utf8' });
  const processes = stdout.trim().split('\n').length;
  expect(processes).toBeGreaterThanOrEqual(8);
  // A process that was killed may not be gone yet.
  expect(processes).toBeLessThanOrEqual(9);
});

it.each(names)('%s: the threads of prepro give the recorded ids, each document after an end of text', async (name) => {
  const { endOfText } = readTokenizer(fixture(name));
  const documents = recorded(name).filter(({ text, ids }) => text.trim() && ids.length && !ids.includes(endOfText!));
  const source = place.file(`${name}.jsonl`, jsonl(documents.map(({ text }) => text)));
  const { dataset, folder } = await prepared([source], place.path(name), {
    ...{ format: ofJsonl, validation: 0.2, tokenizer: fixture(name) },
    // Many recorded texts have characters that the two lack.
    lossy: name !== 'byte-level',
  });
  expect(dataset.lost === 0).toBe(name === 'byte-level');
  expect(dataset).toMatchObject({ tokenizer: 'huggingface', vocabularySize: name === 'byte-level' ? 421 : 420 });
  expect(readFileSync(`${folder}/tokenizer.json`, 'utf8')).toBe(readFileSync(fixture(name), 'utf8'));
  const found = dataset.shards.flatMap(({ file }) => {
    return tokensIn(`${folder}/${file}`)
      .join(' ')
      .split(new RegExp(`(?:^| )${endOfText}(?= |$)`))
      .slice(1);
  });
  const wanted = documents.map(({ ids }) => ids.map((id) => ` ${id}`).join(''));
  expect(found.sort()).toEqual(wanted.sort());
});

it('a long text is cut at lines, where ids do not change', async () => {
  const words = recorded('byte-level').map(({ text }) => text.replaceAll(/[\0\u0080-\uffff<]/g, 'x'));
  const text = Array.from({ length: 12 }, (_, round) => words.slice(round).join('.\n')).join('\n\n');
  const options = { tokenizer: fixture('byte-level'), validation: 0.3 };
  const { dataset, folder } = await prepared([place.file('long.txt', text)], place.path('long'), options);
  const all = dataset.shards.flatMap(({ file }) => tokensIn(`${folder}/${file}`));
  const wanted = [...encode(text, readTokenizer(fixture('byte-level')))];
  expect(text.length).toBeGreaterThan(200_000);
  const ends = all.filter((id) => id === 0).length;
  expect(all.toSorted()).toEqual([...Array(ends).fill(0), ...wanted].toSorted());
});

it('knows what ends a document, and begins a text with it', () => {
  const [byteLevel, wordPiece, unigram] = names.map((name) => readTokenizer(fixture(name)));
  expect([byteLevel!.endOfText, wordPiece!.endOfText, unigram!.endOfText]).toEqual([0, 2, 1]);
  expect(byteLevel!.vocabularySize).toBe(421);
  expect(promptIds('', byteLevel!)).toEqual([0]);
  expect(promptIds('a', byteLevel!)).toEqual([0, ...encode('a', byteLevel!)]);
  expect(byteLevel!.bytesOf!(0)).toHaveLength(0);
});

it('without a special token for the end of a document has none', () => {
  const tokenizer = parseTokenizer(JSON.stringify({ ...byteLevel, added_tokens: byteLevel.added_tokens.slice(1) }));
  expect(tokenizer.endOfText).toBeUndefined();
  expect(decode(promptIds('', tokenizer), tokenizer)).toBe('\n');
});

const [{ content: _, id: __, ...special }, , added] = byteLevel.added_tokens;
const flags = { ...special, special: false };

it('gives an added token its text, also where its letters stand for bytes in others', () => {
  const add = (content: string, id: number) => {
    const added_tokens = [...byteLevel.added_tokens, { ...flags, id, content }];
    return parseTokenizer(JSON.stringify({ ...byteLevel, added_tokens }));
  };
  const tokenizer = add('đem', 421);
  const ids = encode('nhớ đem đi', tokenizer);
  expect([...ids]).toContain(421);
  expect(decode(ids, tokenizer)).toBe('nhớ đem đi');
  expect(byteLengths({ ...tokenizer, lost: 0 }, 423)![421]).toBe(4);
  // Merges make this one too, of a blank and a letter.
  const merged = byteLevel.model.vocab.Ġt;
  expect(decode([merged], add('Ġt', merged))).toBe(' t');
  expect(() => add('đem', 422)).toThrow('its added token "đem" has the id 422, not 421');
});

const folderWith = (files: Record<string, object>) => {
  const folder = mkdtempSync(place.path('folder-'));
  for (const [name, content] of Object.entries(files)) place.file(`${folder}/${name}.json`, JSON.stringify(content));
  return folder;
};
const model = { model_type: 'gpt2', n_layer: 1, n_embd: 8, n_head: 2, n_positions: 16, vocab_size: 424 };

describe('the end of text of a folder', () => {
  const byName = { tokenizer: byteLevel };
  const unnamed = { tokenizer: { ...byteLevel, added_tokens: byteLevel.added_tokens.slice(1) } };
  const named = (eos_token: unknown) => ({ eos_token });
  it.each([
    ['is that of the list without eos_token', byName, 0],
    ['is eos_token', { ...byName, tokenizer_config: named('<|user|>') }, 1],
    ['is eos_token of special_tokens_map.json', { ...byName, special_tokens_map: named({ content: '<|user|>' }) }, 1],
    ['is a token that is no special one in tokenizer.json', { ...byName, tokenizer_config: named(' gpt2.ts') }, 420],
    ['is one of config.json', { ...byName, config: { ...model, eos_token_id: [5, 0] } }, 0],
    ['is that of config.json if it has no known name', { ...unnamed, config: { ...model, eos_token_id: 1 } }, 1],
    ['is none of config.json, whose id is no token', { ...byName, config: { ...model, eos_token_id: 50256 } }, 0],
    ['is added', { ...byName, tokenizer_config: named('<end>') }, 421],
    ['is eos_token of both', { ...byName, tokenizer_config: named('<end>'), special_tokens_map: named('<end>') }, 421],
  ] as const)('%s, also for prepro, and in the file that data keeps', (_, files, id) => {
    const folder = folderWith({ config: model, ...files });
    const ofTrain = readModelFolder(folder).tokenizer!;
    const ofPrepro = chooseTokenizer(folder)!;
    for (const tokenizer of [ofTrain, ofPrepro, parseTokenizer(ofPrepro.file!)]) expect(tokenizer.endOfText).toBe(id);
    expect(isSameTokenizer(ofTrain, ofPrepro)).toBe(true);
    expect(decode([66, id, 67], ofPrepro)).toBe('ab');
  });

  it.each([
    ['two', { tokenizer_config: named('<end>'), special_tokens_map: named('</s>') }, 'eos_token is "<end>" in its'],
    ['another in config.json', { config: { ...model, eos_token_id: 1 } }, 'eos_token_id is 1 in its config.json'],
    [
      'another in config.json than eos_token',
      { config: { ...model, eos_token_id: 0 }, tokenizer_config: named('<|user|>') },
      "eos_token_id is 0 in its config.json, but its tokenizer's end of text is 1",
    ],
    [
      'in config.json a token that is not added',
      { ...unnamed, config: { ...model, eos_token_id: 5 } },
      "eos_token_id is 5 in its config.json, but its tokenizer's end of text is unknown: name it as eos_token in its tok",
    ],
    ['a number', { tokenizer_config: named(5) }, 'eos_token of its tokenizer_config.json'],
    ['no case', { tokenizer_config: { do_lower_case: true } }, 'do_lower_case is true in its tokenizer_config.json'],
  ])('%s: refused', (_, files, message) => {
    const folder = folderWith({ config: model, ...byName, ...files });
    expect(() => readModelFolder(folder)).toThrow(message);
    expect(() => chooseTokenizer(folder)).toThrow(message);
  });
});

it('vocab.json and merges.txt with added tokens give the ids of transformers', () => {
  const merges = byteLevel.model.merges.map((pair: string[]) => `${pair.join(' ')}\n`).join('');
  const read = (files: Record<string, object>) => {
    const folder = folderWith({ config: model, vocab: byteLevel.model.vocab, ...files });
    writeFileSync(join(folder, 'merges.txt'), `#version: 0.2\n${merges}`);
    return readModelFolder(folder).tokenizer!;
  };
  const ofIds = (added_tokens_decoder: object) => ({ tokenizer_config: { added_tokens_decoder } });
  for (const tokenizer of [
    read({ added_tokens: { ' gpt2.ts': 420 }, special_tokens_map: { additional_special_tokens: ['<|user|>'] } }),
    read(ofIds({ 420: added, 1: { ...special, content: '<|user|>' } })),
  ])
    for (const { text, ids, decoded } of recorded('byte-level')) {
      expect([...encode(text, tokenizer)], JSON.stringify(text)).toEqual(ids);
      expect(decode(ids, tokenizer)).toBe(decoded);
    }
  const tokens = [
    { ...flags, content: 'đem', lstrip: true },
    { ...special, content: '<mask>', rstrip: true },
    { ...flags, content: '<pad>' },
    { ...flags, content: 'xyz', single_word: true },
  ];
  const tokenizer = read(ofIds(Object.fromEntries(tokens.map((token, index) => [420 + index, token]))));
  // Recorded with transformers 5.18.
  for (const [text, ids] of [
    ['a  đemb', [66, 420, 67]],
    ['<mask>  x', [421, 89]],
    ['xyz axyz', [423, 261, 89, 90, 91]],
    ['đem xyz <mask>\n<pad>.', [420, 222, 423, 222, 421, 422, 15]],
  ] as const)
    expect([...encode(text, tokenizer)], text).toEqual(ids);
  expect(() => read({ added_tokens: { đem: 423 } })).toThrow('its added token "đem" has the id 423, not 420');
  const many = Object.fromEntries([0, 1, 2, 3, 4].map((index) => [`<${index}>`, 420 + index]));
  expect(() => read({ added_tokens: many })).toThrow('its tokenizer has 425 ids, but vocab_size of its');
});

it('is the same if only the form of the file differs', () => {
  const tokenizer = readTokenizer(fixture('byte-level'));
  const changed = (merges: unknown) =>
    parseTokenizer(JSON.stringify({ ...byteLevel, padding: {}, model: { ...byteLevel.model, merges } }, null, 1));
  const asText = byteLevel.model.merges.map((pair: string[]) => pair.join(' '));
  expect(isSameTokenizer(tokenizer, changed(asText))).toBe(true);
  expect(isSameTokenizer(tokenizer, changed(asText.toReversed()))).toBe(false);
  expect(isSameTokenizer(tokenizer, readTokenizer(fixture('unigram')))).toBe(false);
});

it.each([gpt2, bytes])('takes the file of a built-in tokenizer for that: $name', (builtIn) => {
  const { tokens, merges } = tokenizerFiles(builtIn);
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const byteForm = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const file = {
    added_tokens: [{ ...special, id: builtIn.endOfText, content: '<|endoftext|>' }],
    pre_tokenizer: byteForm,
    decoder: byteForm,
    model: { type: 'BPE', vocab, merges },
  };
  expect(parseTokenizer(JSON.stringify(file))).toBe(builtIn);
  // With these tokens and merges, the library gives the built-in tokenizer's ids.
  const library = huggingFaceTokenizer(file, JSON.stringify(file), 'tokenizer.json');
  const text = 'Shakespeare, Coriolanus: antidisestablishmentarianism naïve 日本語 🙂 1234567';
  expect(encode(text, library)).toEqual(encode(text, builtIn));
  for (const change of [
    { pre_tokenizer: { ...byteForm, add_prefix_space: true } },
    { model: { ...file.model, merges: [...merges.slice(1), 'Ġ a'] } },
    { model: { ...file.model, ignore_merges: true } },
    { added_tokens: [{ ...file.added_tokens[0], lstrip: true }] },
    { decoder: null },
  ])
    expect(parseTokenizer(JSON.stringify({ ...file, ...change })).name).toBe('huggingface');
});

describe('a text that ids do not hold', () => {
  const lacking = () => readTokenizer(place.file('lacking.json', JSON.stringify(withoutAlphabet())));
  const prepare = (documents: readonly string[], options: More = {}) =>
    prepared([place.file('lost.txt', documents.join('\n\n'))], place.path('lost'), {
      ...{ format: { kind: 'text', separator: '\n\n' }, validation: 0.2, overwrite: true },
      ...{ tokenizer: place.path('lacking.json'), workers: 1, ...options },
    });

  it('is counted without white space that is no byte, after the normalizer, and without what the text spells itself', () => {
    const lossOf = (name: string, text: string) => [...readTokenizer(fixture(name)).encodeAll!([text]).loss.lost];
    const { lost } = lacking().encodeAll!(['é 7 7\n a 世', 'b']).loss;
    expect([...lost].join(' ')).toBe('233,1 55,2 10,1 19990,1');
    expect(lossOf('word-piece', 'THÉ  [SEP]\tthe [UNK] dog')).toEqual([]);
    expect(lossOf('word-piece', 'the 世 [UNK]')).toEqual([[0x4e16, 1]]);
    expect(lossOf('unigram', 'the ﬁ </s>')).toEqual([]);
    expect(lossOf('byte-level', '世 é \n <|endoftext|>\t<|user|>')).toEqual([]);
    const pretokenizers = [{ type: 'WhitespaceSplit' }, byteLevel.pre_tokenizer];
    const split = parseTokenizer(JSON.stringify({ ...byteLevel, pre_tokenizer: { type: 'Sequence', pretokenizers } }));
    expect([...split.encodeAll!(['a b\n']).loss.lost].join(' ')).toBe('32,1 10,1');
    expect(decode(encode('a b', split), split)).toBe('ab');
  });

  it('is refused before there is a shard, and taken with lossy, without bits per byte', async () => {
    lacking();
    const documents = Array.from({ length: 40 }, (_, index) => `a text ${index % 4 === 0 ? '世界' : ''} with letters`);
    await expect(prepare(documents)).rejects.toThrow(
      /^the tokenizer loses 20 of 660 characters \(3%\), such as "世" \(U\+4E16\) × 10, "界" .*: take another --tokenizer, or accept the loss with --lossy$/,
    );
    expect(existsSync(place.path('lost'))).toBe(false);
    const notices: string[] = [];
    const notice = (text: string) => void notices.push(text);
    const { dataset, folder } = await prepare(documents, { lossy: true, notice });
    expect(dataset.lost).toBe(20 / 660);
    expect(notices.join('\n')).toMatch(
      /^the tokenizer loses 20 of 660 characters .*; bits per byte will not be computed$/m,
    );
    const tokenizer = readDatasetTokenizer(folder);
    expect(byteLengths(tokenizer, tokenizer.vocabularySize)).toBeUndefined();
    expect(noByteLengths(tokenizer)).toBe(
      'the data set lacks 3% of the characters of its text, which its tokenizer lost',
    );
  });

  it('is named and taken up to a thousandth; without a loss bytes are known', async () => {
    lacking();
    const notices: string[] = [];
    const plain = Array.from({ length: 90 }, () => 'a text of letters that has a length');
    const few = await prepare([...plain, 'é'], { notice: (text: string) => void notices.push(text) });
    expect(few.dataset.lost).toBeCloseTo(1 / 2521);
    expect(notices.join()).toMatch(/loses 1 of 2,521 characters \(0.04%\), such as "é" \(U\+00E9\) × 1/);
    const { dataset, folder } = await prepare(plain);
    expect(dataset.lost).toBe(0);
    const tokenizer = readDatasetTokenizer(folder);
    expect(byteLengths(tokenizer, 50)).toEqual(new Uint8Array(50).map((_, id) => tokenizer.bytesOf!(id).length));
  });

  it('is no prompt', () => {
    const message =
      /^the model's tokenizer has no ids for the character "é" \(U\+00E9\): leave it out, or take a model whose tokenizer has it$/;
    const tokenizer = lacking();
    expect(() => promptIds('naïve'.replace('ï', 'é'), tokenizer)).toThrow(message);
    expect(() => encode('é', tokenizer)).toThrow(message);
    expect(promptIds('a', tokenizer)).toHaveLength(2);
  });
});

// The hash of the merges, one a line, that the library's Python trainer finds in the 1,000 texts, joined by line breaks:
//   tokenizer = Tokenizer(models.BPE()); tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
//   trainers.BpeTrainer(vocab_size=..., initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"])
it.each([
  [257, 257, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  [300, 300, '92242c5307041916a3b4ad989f040502429606b0a8709a224fd037a2fcfa6ee0'],
  [2000, 2000, '54ef1a06a4160b84692d0fc58ae94e91f01e033bd4f980af4da077bcc0db5bf3'],
  [20_000, 3374, '17aee95b71cd521eadbf642ec95fa5a4d7b7bc4360fc150c4122c98934037a45'],
])("trained with %i ids, it has %i and the merges of the library's Python trainer", (vocabulary, size, hash) => {
  const { file, vocabularySize } = trainTokenizer([place.file('texts.txt', texts.join('\n'))], vocabulary);
  expect(vocabularySize).toBe(size);
  const { model } = JSON.parse(file) as { model: { vocab: Record<string, number>; merges: [string, string][] } };
  const lines = model.merges.map((pair) => pair.join(' ')).join('\n');
  expect(createHash('sha256').update(lines).digest('hex')).toBe(hash);
  expect(['<|endoftext|>', '!', 'Ń'].map((token) => model.vocab[token])).toEqual([0, 1, 256]);
  const tokenizer = parseTokenizer(file);
  expect([tokenizer.vocabularySize, tokenizer.endOfText]).toEqual([size, 0]);
  const plain = texts.filter((text, index) => index % 20 === 0 && !text.includes('<|endoftext|>'));
  for (const text of plain) expect(decode(encode(text, tokenizer), tokenizer)).toBe(text);
});

it('a text that the tokenizer refuses is an error, and the next one is encoded', () => {
  const model = { type: 'WordLevel', vocab: { a: 0, b: 1 }, unk_token: '[UNK]' };
  const file = JSON.stringify({ version: '1.0', pre_tokenizer: { type: 'Whitespace' }, model });
  const tokenizer = readTokenizer(place.file('words.json', file));
  expect(() => encode('a c', tokenizer)).toThrow(/^the tokenizer has no ids for a text: .*\[UNK\].*; leave it out/);
  expect([...encode('b a', tokenizer)]).toEqual([1, 0]);
});

it('refuses files that cannot be used, in one line', () => {
  const many = Object.fromEntries(Array.from({ length: 65_537 }, (_, id) => [`t${id}`, id]));
  for (const [content, reason] of [
    ['{', /cannot be used: .*JSON/],
    ['{"model":{"vocab":{"a":0,"a":1}}}', 'cannot be used: it has the key "a" twice in one object'],
    ['[]', 'cannot be used: it: '],
    ['{}', 'cannot be used: model: '],
    ['{"model":{"vocab":{"a":-1}}}', 'cannot be used: model.vocab'],
    [`{"model":{"vocab":${JSON.stringify(many)}}}`, 'it has 65537 ids, more than the 65536 of a token file'],
  ] as const) {
    const path = place.file('tokenizer.json', content);
    expect(() => readTokenizer(path), content.slice(0, 40)).toThrow(reason);
  }
  const tokenizer = readTokenizer(place.file('tokenizer.json', '{"model":{"type":"Other","vocab":{"a":0}}}'));
  expect(() => encode('a', tokenizer)).toThrow(/the package tokenizers cannot read this tokenizer.json/);
});
