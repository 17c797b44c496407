// Finds losses that cannot be compared: on other data or another vocabulary, and validations on other tokens of the same data.
import { shortValue } from '../options/configuration.ts';
import type { RunEvent } from './schema.ts';

/** A run, or a reference, which has no events. */
export interface Measured {
  readonly configuration?: Readonly<Record<string, unknown>> | undefined;
  readonly events?: readonly RunEvent[] | undefined;
}

export const lastEvent = <K extends RunEvent['event']>({ events = [] }: Measured, kind: K) =>
  events.findLast((event): event is Extract<RunEvent, { event: K }> => event.event === kind);

/** The last validation in bits per byte of its text; undefined if the log lacks its bytes. */
export function bitsPerByte(run: Measured): number | undefined {
  const { loss = 0, tokens, bytes } = lastEvent(run, 'val') ?? {};
  return tokens && bytes ? (loss * tokens) / Math.LN2 / bytes : undefined;
}

/**
 * The series of losses that cannot be compared. Fields that a reference lacks count as equal.
 * @returns `otherText`: series on other data or another vocabulary; `leftOut`: also validations on other tokens
 */
export function unlike(one: Measured, other: Measured) {
  const [ours, theirs] = [factsOf(one, other), factsOf(other, one)];
  const otherText = (['train', 'val'] as const).filter((of) =>
    // Equal tokens have the same vocabulary, even if one of the models has more rows.
    ours.data[of] && theirs.data[of] ? ours.data[of] !== theirs.data[of] : ours.text !== theirs.text,
  );
  const isOtherChoice = ours.validation !== theirs.validation && !otherText.includes('val');
  return { otherText, leftOut: isOtherChoice ? [...otherText, 'val' as const] : otherText };
}

function factsOf({ configuration, events }: Measured, other: Measured) {
  const filled = events ? configuration : { ...other.configuration, ...configuration };
  const log = { events: events ?? other.events };
  const { vocabularySize, data, sequence, batch, ranks = 1, valSteps, valTokens } = filled ?? {};
  // Batches from the start of the set also depend on their rows; sequences spread over the set depend only on their number.
  const batches = valSteps && [valSteps, Number(batch) * Number(ranks)];
  return {
    data: lastEvent(log, 'run')?.data ?? {},
    text: `${shortValue('data', data)} ${vocabularySize}`,
    validation: `${batches ?? lastEvent(log, 'val')?.tokens ?? valTokens} of ${sequence}`,
  };
}
