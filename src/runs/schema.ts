// The events of a run log, one JSON object a line, and how they are written: numbers with all digits, those JSON has no
// word for as "NaN", "Infinity" and "-Infinity". Fields not named here are let through, so that a log of a later version
// can be read. Files and their order are left to writer.ts and reader.ts.
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { configurationSchema } from '../options/configuration.ts';
import type { Configuration } from '../options/table.ts';

const nonFinite = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
} as const;

/** A number, or the text of one that JSON lacks. */
const number = z.union([z.number(), z.enum(['NaN', 'Infinity', '-Infinity']).transform((name) => nonFinite[name])]);
const step = z.int().nonnegative();

/** Every kind of line, told apart by `event`. */
export const runEventSchema = z.discriminatedUnion('event', [
  z.looseObject({
    event: z.literal('run'),
    // The types follow from the table, which zod's own inference cannot see.
    configuration: configurationSchema as unknown as z.ZodType<Configuration>,
    program: z.string(),
    device: z.string(),
    codePath: z.string(),
    dtype: z.string(),
    parameters: z.int(),
    resumedFrom: step.optional(),
    /** The machine of each of several ranks. */
    hosts: z.array(z.string()).optional(),
    time: z.string(),
  }),
  z.looseObject({
    event: z.literal('train'),
    step,
    loss: number,
    norm: number,
    lr: number,
    tokensPerSecond: number,
    ms: number,
    /** The step's update was left out by --skip-spikes. */
    skipped: z.boolean().optional(),
  }),
  z.looseObject({ event: z.literal('val'), step, loss: number }),
  // Shares of `questions` answered right, by the sum of a completion's losses and by their mean.
  z.looseObject({ event: z.literal('hellaswag'), step, acc: number, accNorm: number, questions: z.int() }),
  z.looseObject({ event: z.literal('sample'), step, text: z.string() }),
  // ms: from the save's being due to its being on the disk. Of these training stood still for waitedMs until the save before
  // was written, and for heldMs until the device's copy was issued; the copy itself is in the time of the step that follows.
  z.looseObject({
    event: z.literal('checkpoint'),
    step,
    path: z.string(),
    ms: number.optional(),
    heldMs: number.optional(),
    waitedMs: number.optional(),
  }),
  // Why there is no checkpoint though one was due.
  z.looseObject({ event: z.literal('notSaved'), step, reason: z.string() }),
  // What stopped a run: see train/failure/bad-step.ts.
  z.looseObject({
    event: z.literal('nonFinite'),
    step,
    loss: number,
    norm: number,
    finding: z.string(),
    capture: z.string().optional(),
  }),
  // skipped: updates that --skip-spikes left out.
  z.looseObject({
    event: z.literal('done'),
    steps: step,
    seconds: number,
    weights: z.string(),
    skipped: step.optional(),
  }),
]);

/** One line of a run log. */
export type RunEvent = z.infer<typeof runEventSchema>;

/** An event as its line, with its checksum and the line break. */
export function formatEvent(event: RunEvent): string {
  const replacer = (_: string, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
  const text = JSON.stringify(event, replacer);
  return `${text.slice(0, -1)}${checksumOf(text)}}\n`;
}

/** Last in a line: the CRC-32 of the line without it, which detects every change of up to four bytes in a row. */
const checksumOf = (text: string): string => `,"crc32":"${crc32(text).toString(16).padStart(8, '0')}"`;
const checksum = /,"crc32":"[^"]*"(?=\}$)/;

/** The event of a line. @throws ZodError, SyntaxError, or Error if its checksum differs; lines of earlier versions have none */
export function parseEvent(line: string): RunEvent {
  const whole = line.replace(/\n$/, '');
  const [found] = checksum.exec(whole) ?? [];
  const text = whole.replace(checksum, '');
  if (found !== undefined && found !== checksumOf(text)) throw new Error('its crc32 differs');
  return runEventSchema.parse(JSON.parse(text));
}
