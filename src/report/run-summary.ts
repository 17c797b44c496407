// Summarizes a run in a few figures, for lists of runs.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { customModel, modelLabel } from '../model/config.ts';
import { shortValue } from '../options/configuration.ts';
import { readRun } from '../runs/reader.ts';
import { LoggedRun } from './logged-run.ts';
import { runState, stepsDone } from './ranking.ts';

/** Losses are the last ones, in nats per token; null: none yet. */
export type RunSummary = ReturnType<typeof summarizeRun>;

/** @throws Gpt2Error as `readRun` */
export function summarizeRun(run: string) {
  const record = readRun(run);
  const { events, series, configuration } = record;
  const { milliseconds } = new LoggedRun(events);
  return {
    run,
    /** Time of the first start, in UTC. */
    started: events.find((event) => event.event === 'run')!.time,
    model: configuration.model === customModel ? modelLabel(configuration) : configuration.model,
    data: String(shortValue('data', configuration.data)),
    steps: stepsDone(record),
    ofSteps: configuration.steps,
    train: series.train.at(-1)?.[1] ?? null,
    val: series.val.at(-1)?.[1] ?? null,
    /** By the median time of the last steps. */
    tokensPerSecond: milliseconds ? (1000 * configuration.totalBatch) / milliseconds : null,
    state: runState(run, record),
    bytes: bytesIn(run),
  };
}

/** Bytes of all files; those that go while they are counted count as nothing. */
function bytesIn(folder: string): number {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
    statSync(join(folder, name), { throwIfNoEntry: false }),
  );
  return files.reduce((sum, file) => sum + (file?.isFile() ? file.size : 0), 0);
}
