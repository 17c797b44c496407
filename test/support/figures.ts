// Events of a run's log; and its figures, which must be the same however often the run was stopped and resumed.
import { readFileSync } from 'node:fs';
import { logPath } from '../../src/runs/paths.ts';
import { readRun } from '../../src/runs/reader.ts';
import type { RunEvent } from '../../src/runs/schema.ts';

/** The JSON of each line of a log, or of a command's output. */
export const jsonLines = <T = Record<string, unknown>>(text: string): T[] =>
  JSON.parse(`[${text.trimEnd().replaceAll('\n', ',')}]`);

/** The events of a kind. */
export const eventsOf = <K extends RunEvent['event']>(run: string, kind: K) =>
  readRun(run).events.filter((event): event is Extract<RunEvent, { event: K }> => event.event === kind);

/** Every line of a log but those of starts and saves, without times: nothing repeated may hide behind a later line. */
export function figuresOf(run: string): string[] {
  return jsonLines(readFileSync(logPath(run), 'utf8')).flatMap((event) => {
    if (['run', 'checkpoint', 'notSaved'].includes(event.event as string)) return [];
    // Logs whose hash is recorded lack a validation's tokens.
    const { ms: _, tokensPerSecond: __, seconds: ___, crc32: ____, tokens: _____, ...figures } = event;
    return [JSON.stringify(figures)];
  });
}
