// Parquet files as documents: those of one column, whatever the codec and the row groups; the same shards as from JSON lines;
// files that are damaged or of something else are refused by name.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { parquetMetadata } from 'hyparquet';
import { type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { Gpt2Error } from '../../../src/base/errors.ts';
import { documentsOf } from '../../../src/data/datasets/text/parquet.ts';
import { parquetDocuments } from '../../../src/data/datasets/text/parquet-reader.ts';
import { Random } from '../../../src/ops/cases/case-numbers.ts';
import { mutate } from '../../fuzz/mutate.ts';
import { workplace } from '../../support/cli.ts';

const place = workplace();

const random = new Random(1);
const alphabet = ['word', ' ', 'é', '漢字', '"', '\\', '\n', '\t', '\u2028', '\0', '🙂', 'ünïcode', '\ufeff', '</a>'];
/** Texts of any characters; some are empty, some are alike, which makes dictionaries of them. */
const texts = Array.from({ length: 700 }, (_, index) =>
  index % 10 === 0 ? 'the same' : [...random.integers(index % 40, alphabet.length)].map((at) => alphabet[at]).join(''),
);

type Codec = NonNullable<Parameters<typeof parquetWriteBuffer>[0]['codec']>;
/** The bytes as they are, in a frame of zstd: a header with their count, then blocks that are not packed. */
const zstdFrame = (bytes: Uint8Array): Uint8Array => {
  const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32LE(bytes.length, 5);
  header.writeUIntLE(bytes.length * 8 + 1, 9, 3);
  return Buffer.concat([header, bytes]);
};
const compressors = { GZIP: gzipSync, BROTLI: brotliCompressSync, ZSTD: zstdFrame };

function table(
  columns: Record<string, ColumnSource['data'] | Omit<ColumnSource, 'name'>>,
  { codec = 'SNAPPY', rows = 100 }: { codec?: Codec; rows?: number } = {},
): Buffer {
  const columnData = Object.entries(columns).map(([name, column]) => ({
    name,
    ...('data' in column ? column : { data: column }),
  }));
  return Buffer.from(parquetWriteBuffer({ columnData, codec, compressors, rowGroupSize: rows, pageSize: 4096 }));
}

const whole = (list = texts, more?: { codec?: Codec; rows?: number }) =>
  table({ id: list.map((_, i) => i), text: { data: list, type: 'STRING' }, url: list.map(() => 'http://') }, more);

/** The documents, as lines of JSON have them. */
async function documents(path: string, field = 'text'): Promise<string[]> {
  const parts: Buffer[] = [];
  for await (const part of documentsOf(path, { kind: 'jsonl', field })) parts.push(Buffer.from(part));
  const lines = Buffer.concat(parts).toString().split('\n').slice(0, -1);
  return lines.map((line) => (JSON.parse(line) as Record<string, string>)[field]!);
}

describe('reads', () => {
  it.each(['SNAPPY', 'UNCOMPRESSED', 'GZIP', 'BROTLI', 'ZSTD'] as Codec[])('a file packed with %s', async (codec) => {
    expect(await documents(place.file(`${codec}.parquet`, whole(texts, { codec })))).toEqual(texts);
  });

  it.each([1, 7, 699, 700, 5000])('row groups of %d', async (rows) => {
    expect(await documents(place.file('rows.parquet', whole(texts, { rows })))).toEqual(texts);
  });

  it('the column that is named, and no byte of others', async () => {
    const bytes = table({ text: { data: texts, type: 'STRING' }, body: { data: texts.toReversed(), type: 'STRING' } });
    const { row_groups } = parquetMetadata(new Uint8Array(bytes).buffer);
    for (const { columns } of row_groups) {
      const { data_page_offset, dictionary_page_offset, total_compressed_size } = columns[0]!.meta_data!;
      const start = Number(dictionary_page_offset ?? data_page_offset);
      bytes.fill(0xff, start, start + Number(total_compressed_size));
    }
    expect(await documents(place.file('other.parquet', bytes), 'body')).toEqual(texts.toReversed());
    await expect(documents(place.path('other.parquet'))).rejects.toThrow(/^row group 0 of .*other\.parquet cannot be/);
  });

  it('all of it, as progress', async () => {
    const path = place.file('progress.parquet', whole());
    let told = 0;
    for await (const _ of documentsOf(path, { kind: 'text', separator: '|' }, { onRead: (bytes) => (told += bytes) }));
    expect(told).toBe(readFileSync(path).length);
  });

  it('a file without rows', async () => {
    expect(await documents(place.file('none.parquet', table({ text: { data: [], type: 'STRING' } })))).toEqual([]);
  });
});

describe('makes', () => {
  const prepro = async (...args: string[]) => {
    await place.okHere(['prepro', ...args, '--workers', '1']);
  };
  const shards = (folder: string) =>
    readdirSync(place.path(folder))
      .filter((name) => name.endsWith('.bin'))
      .map((name) => [name.replace(/^.*(?=train|val)/, ''), readFileSync(place.path(folder, name)).toString('hex')]);
  const lines = () => texts.map((text) => `${JSON.stringify({ text })}\n`).join('');

  it('of FineWeb what JSON lines make', async () => {
    place.file('web/000_00000.parquet', whole(texts.slice(0, 300)));
    place.file('web/001_00000.parquet', whole(texts.slice(300), { codec: 'ZSTD', rows: 30 }));
    place.file('lines.jsonl', lines());
    await prepro('fineweb', '--from', 'web', '--out', 'a', '--shard-tokens', '2000');
    await prepro('fineweb', '--from', 'lines.jsonl', '--out', 'b', '--shard-tokens', '2000');
    expect(shards('a').length).toBeGreaterThan(3);
    expect(shards('a')).toEqual(shards('b'));
  });

  it('of TinyStories what its text files make', async () => {
    const stories = texts.filter((text) => text.trim() !== '').map((text) => text.replaceAll('\0', ''));
    place.file('stories/train-00000-of-00001.parquet', whole(stories));
    place.file('stories/validation-00000-of-00001.parquet', whole(stories.slice(0, 50)));
    place.file('TinyStories-train.txt', stories.join('<|endoftext|>'));
    place.file('TinyStories-valid.txt', stories.slice(0, 50).join('<|endoftext|>'));
    await prepro('tinystories', '--from', 'stories', '--out', 'c');
    await prepro('tinystories', '--from', 'TinyStories-train.txt', 'TinyStories-valid.txt', '--out', 'd');
    expect(shards('c')).toEqual(shards('d'));
  });

  it('of any table a set of its column of text', async () => {
    place.file('table.parquet', whole());
    await prepro('text', 'table.parquet', '--field', 'text', '--out', 'e');
    await prepro('text', 'lines.jsonl', '--field', 'text', '--out', 'f');
    expect(shards('e')).toEqual(shards('f'));
  });
});

describe('refuses', () => {
  const damaged = (change: (bytes: Buffer) => Buffer) => change(whole(texts, { codec: 'UNCOMPRESSED' }));
  const refused: Record<string, [Buffer, RegExp]> = {
    'a file of something else': [Buffer.from('no table at all'), /is not a valid Parquet file: .*PAR1/],
    'an empty file': [Buffer.alloc(0), /is not a valid Parquet file/],
    'nothing but the mark': [Buffer.from('PAR1'), /is not a valid Parquet file/],
    'a file cut off': [damaged((bytes) => bytes.subarray(0, 9000)), /is not a valid Parquet file/],
    'a file without its beginning': [damaged((bytes) => bytes.subarray(20_000)), /row group \d of .* cannot be read/],
    'damaged pages': [
      damaged((bytes) => bytes.fill(0xff, 8000, 12_000)),
      /^row group 1 of .* cannot be read: .*; download or write/,
    ],
    'row groups with fewer rows than the file': [
      damaged((bytes) => {
        // num_rows of the footer, in zigzag: 700 becomes 764.
        const at = bytes.lastIndexOf(Buffer.of(0x16, 0xf8, 0x0a));
        bytes[at + 2]! += 1;
        return bytes;
      }),
      /is not a valid Parquet file: .*its row groups have 700 of 764 rows/,
    ],
    'another column': [
      table({ body: { data: ['a'], type: 'STRING' } }),
      /no column of text "text": name one of body with --field/,
    ],
    'no text at all': [
      table({ text: { data: [1, 2], type: 'INT32' } }),
      /no column of text "text": it has no column of text, so use another file/,
    ],
    'lists of texts': [table({ text: [['a', 'b'], ['c']] as never }), /no column of text "text"/],
    'a row without text': [
      table({ text: { data: [...texts, null], type: 'STRING' } }),
      /^row 0 of row group 7 of .* has no text in the column "text"/,
    ],
    'Latin-1': [
      table({ text: { data: [Buffer.from('abc é', 'latin1')], type: 'BYTE_ARRAY' } }),
      /^row 0 of row group 0 of .* is not UTF-8/,
    ],
    'row groups over 64 MiB': [
      whole(
        Array.from({ length: 66 }, (_, index) => String.fromCharCode(32 + index).repeat(2 ** 20)),
        { rows: 66 },
      ),
      /^row group 0 of .* has 66 MiB of "text", over the limit of 64: .* row_group_size/,
    ],
  };
  it.each(Object.entries(refused))('%s', async (name, [bytes, message]) => {
    const path = place.file(`${name}.parquet`, bytes);
    const error = await documents(path).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(Gpt2Error);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toContain(path);
  });

  it('a table as one document', async () => {
    const parts = documentsOf(place.file('whole.parquet', whole()), { kind: 'text' });
    await expect(parts.next()).rejects.toThrow(/is a table: name its column of text with --field/);
  });

  it('pages from which decoding never comes back', async () => {
    const path = join(import.meta.dirname, '../../fixtures/endless.parquet');
    const parts = parquetDocuments({ path, format: { kind: 'jsonl', field: 'text' } }, () => {}, 3000);
    await expect(async () => {
      for await (const _ of parts);
    }).rejects.toThrow(/^row group \d of .*endless\.parquet is not read after 3 s; download or write it again$/);
  });

  it('damaged files of any kind, or reads them', async () => {
    const few = texts.slice(0, 40);
    const examples = [whole(few, { rows: 11 }), whole(few, { codec: 'ZSTD' }), whole(few, { codec: 'GZIP', rows: 20 })];
    const outcome = async (seed: number): Promise<string> => {
      const path = place.file(`${seed}.parquet`, mutate(new Random(seed), examples));
      try {
        for await (const _ of parquetDocuments({ path, format: { kind: 'jsonl', field: 'text' } }, () => {}, 5000));
        return 'read';
      } catch (error) {
        expect(error, `seed ${seed}`).toBeInstanceOf(Gpt2Error);
        expect((error as Error).message).toContain(path);
        return 'refused';
      }
    };
    const outcomes: string[] = [];
    for (let seed = 0; seed < 40; seed += 4) {
      outcomes.push(...(await Promise.all([0, 1, 2, 3].map((more) => outcome(seed + more)))));
    }
    expect(outcomes.filter((one) => one === 'refused').length).toBeGreaterThan(10);
  });
});
