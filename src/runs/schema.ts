// Defines, formats and parses the events of a run log: one JSON object per line, numbers with all digits, non-finite numbers as
// "NaN", "Infinity" and "-Infinity". Unknown fields are accepted, so that logs of later versions can be read.
import { crc32 } from 'node:zlib';
import * as z from 'zod';
import { orElse } from '../base/errors.ts';
import { parseJson } from '../base/files/strict-text.ts';
import { configurationSchema } from '../options/configuration.ts';
import type { Configuration } from '../options/table.ts';

/** A number, or the text of NaN or an infinity. The type is written out, because a .d.ts file cannot hold the inferred type. */
const number: z.ZodType<number> = z.union([z.number(), z.enum(['NaN', 'Infinity', '-Infinity']).transform(Number)]);
const step = z.int().nonnegative();
const text = z.string();
const time = number.optional();

/** The schemas of all kinds of log lines; the field `event` says which kind a line is. */
export const runEventSchema = z.discriminatedUnion('event', [
  z.looseObject({
    event: z.literal('run'),
    // The cast gives the type from the options table, which zod cannot infer.
    configuration: configurationSchema as unknown as z.ZodType<Configuration>,
    program: text,
    commit: text.optional(),
    command: z.array(text).optional(),
    device: text,
    codePath: text,
    dtype: text,
    parameters: z.int(),
    /** `train`, `val`: sha256 of the shards of each split, by which `compare` distinguishes data. `epoch`: tokens of an epoch. */
    data: z.object({ train: text.optional(), val: text.optional(), epoch: z.int().optional() }).optional(),
    resumedFrom: step.optional(),
    /** The machine name of each rank, if there are several ranks. */
    hosts: z.array(text).optional(),
    time: text,
  }),
  z.looseObject({
    event: z.literal('train'),
    step,
    loss: number,
    norm: number,
    lr: number,
    tokensPerSecond: number,
    ms: number,
    /** Number of tokens whose FP8 gradient may have saturated in the head; absent if 0. */
    saturated: number.optional(),
    /** True if --skip-spikes left out the step's update. */
    skipped: z.boolean().optional(),
  }),
  z.looseObject({
    event: z.literal('val'),
    step,
    loss: number,
    tokens: z.int().optional(),
    /** Bytes of the predicted tokens' text, if known. */
    bytes: z.int().optional(),
    /** Standard error of the loss, from the spread of the sequences' losses. */
    standardError: number.optional(),
    /** Only in a run's last validation: the mean loss of each sequence, or of 1,000 evenly spread sequences if there are more. */
    sequenceLosses: z.array(number).optional(),
  }),
  // Fractions of `questions` whose right ending has the smallest sum (acc) or the smallest mean (accNorm) of token losses.
  z.looseObject({ event: z.literal('hellaswag'), step, acc: number, accNorm: number, questions: z.int() }),
  z.looseObject({ event: z.literal('sample'), step, text: text }),
  // ms: from when the save was due until the save was on the disk. waitedMs: how long training waited for the previous save. heldMs:
  // how long training then waited until the copy from the device was enqueued. The copy itself adds to the next step's time.
  z.looseObject({ event: z.literal('checkpoint'), step, path: text, ms: time, heldMs: time, waitedMs: time }),
  // A checkpoint that was due could not be written.
  z.looseObject({ event: z.literal('notSaved'), step, reason: text }),
  // A step that stopped the run, because its loss or gradient norm was not finite (train/run/bad-step.ts).
  z.looseObject({
    event: z.literal('nonFinite'),
    step,
    loss: number,
    norm: number,
    finding: text,
    capture: text.optional(),
  }),
  // The end of a run. weights: a hash of all weights; skipped: number of updates that --skip-spikes left out.
  z.looseObject({ event: z.literal('done'), steps: step, seconds: number, weights: text, skipped: step.optional() }),
]);

/** An event's type without the index signature for unknown fields, which would make every name a field of every event. */
type Declared<E> = E extends unknown ? { [K in keyof E as string extends K ? never : K]: E[K] } : never;

/** One line of a run log; the field `event` says which kind the line is. */
export type RunEvent = Declared<z.infer<typeof runEventSchema>>;

/** Formats a value as JSON, with NaN and infinities as text. */
export const jsonText = (value: object): string =>
  JSON.stringify(value, (_, one: unknown) => (typeof one === 'number' && !Number.isFinite(one) ? String(one) : one));

/** The line of an event, with its checksum and the line break. */
export function formatEvent(event: RunEvent): string {
  const text = jsonText(event);
  return `${text.slice(0, -1)}${checksumOf(text)}}\n`;
}

/** The last field of a line: the CRC-32 of the rest of the line, which detects every change within four consecutive bytes. */
const checksumOf = (text: string): string => `,"crc32":"${crc32(text).toString(16).padStart(8, '0')}"`;
const checksum = /,"crc32":"[^"]*"(?=\}$)/;

/** The event of a line. @throws ZodError, SyntaxError, or Error for a wrong checksum; lines of earlier versions have no checksum */
export function parseEvent(line: string): RunEvent {
  const whole = line.replace(/\n$/, '');
  const [found] = checksum.exec(whole) ?? [];
  const text = whole.replace(checksum, '');
  if (found !== undefined && found !== checksumOf(text)) throw new Error('its crc32 differs');
  return runEventSchema.parse(found === undefined ? parseJson(text) : JSON.parse(text));
}

export const readEvent = (line: string): RunEvent | undefined => orElse(undefined, () => parseEvent(line));
