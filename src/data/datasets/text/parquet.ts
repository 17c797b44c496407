// Reads the documents of a Parquet file: one column, one row group at a time, to bound memory. Documents are returned as in the
// other formats: as JSON lines, or each with a separator after it. hyparquet parses the file.
import { isUtf8 } from 'node:buffer';
import { type FileHandle, open } from 'node:fs/promises';
import {
  type AsyncBuffer,
  type FileMetaData,
  type ParquetReadOptions,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
  type RowGroup,
  type SchemaTree,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { gpt2Error, words } from '../../../base/errors.ts';
import { readFully } from '../../../base/files/regular-file.ts';
import type { Format } from './format.ts';

/** The most bytes of a row group's column, decompressed: a limit of the memory that prepro takes. */
const mostBytes = 64 * 2 ** 20;
/** Documents are returned in parts of up to this many bytes; a longer document is a part by itself. */
const partBytes = 1 << 20;

/** The documents of a file. @throws Gpt2Error naming the file, and the row group that cannot be read */
export async function* documentsOf(
  path: string,
  format: Format,
  told: { onRead?: (bytes: number) => void; onGroup?: (index: number) => void } = {},
): AsyncGenerator<Uint8Array> {
  const { onRead = () => {}, onGroup = () => {} } = told;
  const { column, write } = layoutFor(path, format);
  await using file = await open(path);
  const source = await randomAccess(file);
  const metadata = await openTable(path, source, column);
  let [rowStart, reported] = [0, 0];
  for (const [index, group] of metadata.row_groups.entries()) {
    onGroup(index);
    const rowEnd = rowStart + Number(group.num_rows);
    const rows = { file: source, metadata, columns: [column], rowStart, rowEnd };
    const texts = await readGroup(rows, group, { place: `row group ${index} of ${path}`, column });
    yield* inParts(texts, write);
    // Progress is the share of rows times the file's size, so that at the end it is the file's size, unread columns included.
    const done = Math.floor((source.byteLength * rowEnd) / Number(metadata.num_rows));
    onRead(done - reported);
    [rowStart, reported] = [rowEnd, done];
  }
}

/** Returns a document in the requested format. Strings hold UTF-8 bytes as Latin-1, one character per byte. */
type Write = (text: string) => string;

/** The name of the text's column, and the `Write` for `format`. @throws Gpt2Error if `format` makes each file one document */
function layoutFor(path: string, format: Format): { column: string; write: Write } {
  if (format.kind === 'jsonl') {
    const { field } = format;
    const name = Buffer.from(JSON.stringify(field)).toString('latin1');
    return { column: field, write: (text) => `{${name}:${JSON.stringify(text)}}\n` };
  }
  if (format.separator !== undefined) {
    const separator = Buffer.from(format.separator).toString('latin1');
    return { column: 'text', write: (text) => text + separator };
  }
  throw gpt2Error`${path} is a table: name its column of text with --field, as in --field text`;
}

/** The interface through which hyparquet reads a file. */
async function randomAccess(file: FileHandle): Promise<AsyncBuffer> {
  const { size } = await file.stat();
  return {
    byteLength: size,
    async slice(start, end = size) {
      if (start < 0 || end < start || end > size) throw new Error(`it has no bytes ${start} to ${end}`);
      const bytes = new Uint8Array(end - start);
      readFully(file.fd, bytes, start);
      return bytes.buffer;
    },
  };
}

/** The file's metadata. @throws Gpt2Error if the file is damaged, or has no column of text that is named `column` */
async function openTable(path: string, source: AsyncBuffer, column: string): Promise<FileMetaData> {
  let metadata: FileMetaData;
  let columns: SchemaTree[];
  try {
    metadata = await parquetMetadataAsync(source, { geoparquet: false });
    columns = parquetSchema(metadata).children;
    const rows = metadata.row_groups.reduce((sum, group) => sum + group.num_rows, 0n);
    if (rows !== metadata.num_rows) throw new Error(`its row groups have ${rows} of ${metadata.num_rows} rows`);
  } catch (cause) {
    throw gpt2Error`${path} is not a valid Parquet file: ${cause}; download or write it again`;
  }
  const texts = columns.filter(isText).map(({ element }) => element.name);
  if (texts.includes(column)) return metadata;
  const none = 'it has no column of text, so use another file';
  const known = texts.length > 0 ? words`name one of ${texts.join(', ')} with --field` : none;
  throw gpt2Error`${path} has no column of text "${column}": ${known}`;
}

const isText = ({ element, children }: SchemaTree): boolean =>
  children.length === 0 &&
  element.type === 'BYTE_ARRAY' &&
  element.repetition_type !== 'REPEATED' &&
  (element.converted_type ?? 'UTF8') === 'UTF8' &&
  (element.logical_type?.type ?? 'STRING') === 'STRING';

/** The texts of one row group. @throws Gpt2Error if the texts have too many bytes, or do not match the metadata */
async function readGroup(
  rows: ParquetReadOptions,
  { num_rows, columns }: RowGroup,
  { place, column }: { place: string; column: string },
): Promise<Uint8Array[]> {
  const chunk = columns.find(({ meta_data }) => meta_data?.path_in_schema.join('.') === column)?.meta_data;
  const bytes = Number(chunk?.total_uncompressed_size ?? 0);
  if (bytes > mostBytes) {
    throw gpt2Error`${place} has ${Math.round(bytes / 2 ** 20)} MiB of "${column}", over the limit of ${mostBytes / 2 ** 20}: write the file in smaller row groups, as pyarrow does with row_group_size=1000`;
  }
  let found: Record<string, unknown>[];
  try {
    // Texts stay bytes: decoding them to strings would take longer than all other work.
    const parsers = { stringFromBytes: (value: Uint8Array | undefined) => value };
    found = await parquetReadObjects({ ...rows, compressors, parsers });
    if (found.length !== Number(num_rows)) throw new Error(`it has ${found.length} of ${num_rows} rows`);
  } catch (cause) {
    throw gpt2Error`${place} cannot be read: ${cause}; download or write it again`;
  }
  return found.map((values, row) => {
    const text = values[column];
    if (text instanceof Uint8Array && isUtf8(text)) return text;
    const what = text instanceof Uint8Array ? 'is not UTF-8' : 'has no text';
    throw gpt2Error`row ${row} of ${place} ${what} in the column "${column}": remove such rows from the file`;
  });
}

function* inParts(texts: readonly Uint8Array[], write: Write): Generator<Uint8Array> {
  let part = Buffer.allocUnsafe(partBytes);
  let filled = 0;
  for (const { buffer, byteOffset, byteLength } of texts) {
    const written = write(Buffer.from(buffer, byteOffset, byteLength).toString('latin1'));
    if (filled + written.length > part.length) {
      yield part.subarray(0, filled);
      filled = 0;
      if (written.length > part.length) part = Buffer.allocUnsafe(written.length);
    }
    filled += part.write(written, filled, 'latin1');
  }
  if (filled > 0) yield part.subarray(0, filled);
}
