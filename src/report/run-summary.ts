// Summarizes a run in a few figures, for lists of runs.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { customModel, modelLabel } from '../model/config.ts';
import { shortValue } from '../options/configuration.ts';
import { lastEvent } from '../runs/measured.ts';
import { readRun } from '../runs/reader.ts';
import { LoggedRun } from './logged-run.ts';
import { behind, runState, stepsDone } from './ranking.ts';

/** Losses are the last ones, in nats per token; null: none yet. */
export type RunSummary = ReturnType<typeof withTies>[number];

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
    validated: { configuration, events: [lastEvent(record, 'run')!, lastEvent(record, 'val')!].filter(Boolean) },
  };
}

/** Adds how far each validation is behind the least over the same sequences. */
export function withTies(runs: readonly ReturnType<typeof summarizeRun>[]) {
  const byLoss = runs.toSorted((a, b) => (a.val ?? Number.MAX_VALUE) - (b.val ?? Number.MAX_VALUE));
  return runs.map(({ validated, ...run }) => {
    const best = byLoss.find((other) => behind(validated, other.validated))?.validated;
    return { ...run, behind: best && best !== validated ? behind(validated, best) : null };
  });
}

/** Bytes of all files; those that go while they are counted count as nothing. */
function bytesIn(folder: string): number {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
    statSync(join(folder, name), { throwIfNoEntry: false }),
  );
  return files.reduce((sum, file) => sum + (file?.isFile() ? file.size : 0), 0);
}
