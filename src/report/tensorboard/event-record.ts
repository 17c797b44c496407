// Encodes one event for TensorBoard's event files. An Event message (tensorflow/core/util/event.proto) has the fields wall_time 1, step 2,
// file_version 3, summary 5, session_log 7; a summary's value has tag 1, simple_value 2. A TFRecord frames the message: its length, the
// length's checksum, the data, the data's checksum (tensorflow/core/lib/io/record_writer.h). scalar-file.ts chooses the events.

export type EventContent =
  | { readonly fileVersion: string }
  /** The run starts at the event's step: TensorBoard drops this step and later steps of earlier files. */
  | { readonly start: true }
  | { readonly scalars: Readonly<Record<string, number>> };

/** The framed bytes of an event. `seconds`: time of the event since 1970. */
export function eventRecord(seconds: number, step: number, content: EventContent): Buffer {
  const data = Buffer.concat([field(1, float64(seconds)), field(2, varint(step)), contentField(content)]);
  const length = Buffer.from(BigUint64Array.of(BigInt(data.length)).buffer);
  return Buffer.concat([length, maskedChecksum(length), data, maskedChecksum(data)]);
}

function contentField(content: EventContent): Buffer {
  if ('fileVersion' in content) return field(3, bytes(Buffer.from(content.fileVersion)));
  // Field 1 of SessionLog is the status; its value 1 means START.
  if ('start' in content) return field(7, bytes(field(1, varint(1))));
  const values = Object.entries(content.scalars).map(([tag, value]) =>
    field(1, bytes(Buffer.concat([field(1, bytes(Buffer.from(tag))), field(2, float32(value))]))),
  );
  return field(5, bytes(Buffer.concat(values)));
}

/** A value in protocol buffer encoding, and its wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes). */
interface Encoded {
  readonly wire: 0 | 1 | 2 | 5;
  readonly data: Buffer;
}

const field = (number: number, { wire, data }: Encoded): Buffer => Buffer.from([(number << 3) | wire, ...data]);

/** An unsigned integer as a protocol buffer varint: seven bits per byte, the lowest first. */
function varint(value: number): Encoded {
  const data: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) data.push((rest % 128) | 128);
  return { wire: 0, data: Buffer.from([...data, rest]) };
}

const float64 = (value: number): Encoded => ({ wire: 1, data: Buffer.from(Float64Array.of(value).buffer) });
const float32 = (value: number): Encoded => ({ wire: 5, data: Buffer.from(Float32Array.of(value).buffer) });
const bytes = (data: Buffer): Encoded => ({ wire: 2, data: Buffer.concat([varint(data.length).data, data]) });

/** Table of the CRC-32C of each byte (Castagnoli polynomial, bits reversed). */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0x82f63b78 : sum >>> 1;
  return sum;
});

function crc32c(data: Buffer): number {
  let sum = 0xffffffff;
  for (const byte of data) sum = (sum >>> 8) ^ table[(sum ^ byte) & 0xff]!;
  return ~sum >>> 0;
}

/** TFRecord's masked CRC: the CRC rotated by 15 bits, plus a constant. Unmasked, a CRC over data that contains CRCs would be weak. */
function maskedChecksum(data: Buffer): Buffer {
  const sum = crc32c(data);
  return Buffer.from(Uint32Array.of(((sum >>> 15) | (sum << 17)) + 0xa282ead8).buffer);
}
