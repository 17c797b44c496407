// Finds which losses of two runs cannot be compared, because data, vocabulary or the choice of validation tokens differ.
import { shortValue } from '../options/configuration.ts';
import type { RunEvent } from '../runs/schema.ts';

/** A run, or a recorded reference curve, which has no events. */
export interface Measured {
  readonly configuration?: Readonly<Record<string, unknown>> | undefined;
  readonly events?: readonly RunEvent[] | undefined;
}

export const lastEvent = <K extends RunEvent['event']>({ events = [] }: Measured, kind: K) =>
  events.findLast((event): event is Extract<RunEvent, { event: K }> => event.event === kind);

/** The last validation loss in bits per byte of text; undefined if the log has no number of bytes. */
export function bitsPerByte(run: Measured): number | undefined {
  const { loss = 0, tokens, bytes } = lastEvent(run, 'val') ?? {};
  return tokens && bytes ? (loss * tokens) / Math.LN2 / bytes : undefined;
}

/**
 * The loss series ('train', 'val') in which two runs cannot be compared. A field that a recorded reference lacks counts as equal.
 * @returns `otherText`: series on different data or vocabularies. `leftOut`: `otherText`, and 'val' if the validated tokens differ.
 */
export function unlike(one: Measured, other: Measured) {
  const [ours, theirs] = [factsOf(one, other), factsOf(other, one)];
  const otherText = (['train', 'val'] as const).filter((of) =>
    // Compare the hashes of shards if both are known: equal shards have one vocabulary, even if a model's table has more rows.
    ours.data[of] && theirs.data[of] ? ours.data[of] !== theirs.data[of] : ours.text !== theirs.text,
  );
  const isOtherChoice = ours.validation !== theirs.validation && !otherText.includes('val');
  return { otherText, leftOut: isOtherChoice ? [...otherText, 'val' as const] : otherText };
}

function factsOf({ configuration, events }: Measured, other: Measured) {
  const filled = events ? configuration : { ...other.configuration, ...configuration };
  const log = { events: events ?? other.events };
  const { vocabularySize, data, sequence, batch, ranks = 1, valSteps, valTokens } = filled ?? {};
  // With --val-steps, batch size and ranks determine the validated tokens; with --val-tokens, only the number of tokens does.
  const batches = valSteps && [valSteps, Number(batch) * Number(ranks)];
  return {
    data: lastEvent(log, 'run')?.data ?? {},
    text: `${shortValue('data', data)} ${vocabularySize}`,
    validation: `${batches ?? lastEvent(log, 'val')?.tokens ?? valTokens} of ${sequence}`,
  };
}
