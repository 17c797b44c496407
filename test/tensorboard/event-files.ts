// Reads event files as their formats are written down, apart from the code that writes them: framing with checksums computed
// bit by bit, protocol buffers field by field.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Fields of a message by number: numbers, or bytes. */
type Message = Map<number, (number | Buffer)[]>;

/** Names of the event files of a folder, in the order in which TensorBoard reads them. */
export const eventFiles = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.includes('tfevents'))
    .sort();

export function readEvents(path: string) {
  const file = readFileSync(path);
  const events: ReturnType<typeof eventOf>[] = [];
  for (let at = 0; at < file.length; ) {
    const length = Number(file.readBigUInt64LE(at));
    if (file.readUInt32LE(at + 8) !== masked(file.subarray(at, at + 8))) throw new Error(`checksum of length at ${at}`);
    const data = file.subarray(at + 12, at + 12 + length);
    if (file.readUInt32LE(at + 12 + length) !== masked(data)) throw new Error(`checksum of data at ${at}`);
    events.push(eventOf(data));
    at += 16 + length;
  }
  return events;
}

/** The points that TensorBoard shows for a folder: a start voids what came before it from its step on. */
export function curves(folder: string): Record<string, [step: number, value: number][]> {
  const points: Record<string, [number, number][]> = {};
  for (const name of eventFiles(folder)) {
    for (const { step, isStart, scalars } of readEvents(join(folder, name))) {
      if (isStart) for (const tag of Object.keys(points)) points[tag] = points[tag]!.filter(([at]) => at < step);
      for (const [tag, value] of Object.entries(scalars)) points[tag] = [...(points[tag] ?? []), [step, value]];
    }
  }
  return points;
}

function eventOf(data: Buffer) {
  const event = messageOf(data);
  const summary = event.get(5)?.[0];
  const values =
    summary instanceof Buffer ? (messageOf(summary).get(1) ?? []).map((value) => messageOf(value as Buffer)) : [];
  const session = event.get(7)?.[0];
  return {
    seconds: event.get(1)![0] as number,
    step: event.get(2)![0] as number,
    version: event.get(3)?.[0]?.toString(),
    isStart: session instanceof Buffer && messageOf(session).get(1)?.[0] === 1,
    scalars: Object.fromEntries(values.map((value) => [value.get(1)![0]!.toString(), value.get(2)![0] as number])),
  };
}

function messageOf(data: Buffer): Message {
  const fields: Message = new Map();
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(value);
    }
  };
  while (at < data.length) {
    const key = varint();
    const wire = key & 7;
    const length = wire === 0 ? 0 : wire === 1 ? 8 : wire === 5 ? 4 : varint();
    const part = data.subarray(at, at + length);
    at += length;
    const value = wire === 0 ? varint() : wire === 1 ? part.readDoubleLE() : wire === 5 ? part.readFloatLE() : part;
    fields.set(key >> 3, [...(fields.get(key >> 3) ?? []), value]);
  }
  return fields;
}

function masked(data: Buffer): number {
  let sum = 0xffffffffn;
  for (const byte of data) {
    sum ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) sum = sum & 1n ? (sum >> 1n) ^ 0x82f63b78n : sum >> 1n;
  }
  sum ^= 0xffffffffn;
  return Number((((sum >> 15n) | (sum << 17n)) + 0xa282ead8n) & 0xffffffffn);
}
