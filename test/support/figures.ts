// The figures of a run's log that must be the same however often the run was stopped and resumed.
import { readFileSync } from 'node:fs';
import { logPath } from '../../src/runs/paths.ts';

/** Every line of a log but those of starts and saves, without times: nothing repeated may hide behind a later line. */
export function figuresOf(run: string): string[] {
  return readFileSync(logPath(run), 'utf8')
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const event = JSON.parse(line) as Record<string, unknown>;
      if (['run', 'checkpoint', 'notSaved'].includes(event.event as string)) return [];
      // Logs whose hash is recorded lack a validation's tokens.
      const { ms: _, tokensPerSecond: __, seconds: ___, crc32: ____, tokens: _____, ...figures } = event;
      return [JSON.stringify(figures)];
    });
}
