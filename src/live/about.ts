// What the page of a run is told besides its log: its name, the reference it is laid over, what its throughput is to be
// measured by.
import { basename, resolve } from 'node:path';
import { matchingReference } from '../compare/reference.ts';
import { type ReportData, reportData } from '../report/report-data.ts';
import { type Measures, measuresOf } from '../report/run-figures.ts';
import type { RunStart } from './log-tail.ts';

export interface About extends Measures {
  /** Of the page; the run is the last curve, and has no points yet. */
  readonly report: ReportData;
  readonly steps: number;
  /** "gpt2.ts 0.1.0, bf16, NVIDIA H100 80GB HBM3 (sm90)" */
  readonly on: string;
}

/** @param run the run's folder; of it only the last part of its name is shown */
export function aboutRun(run: string, start: RunStart): About {
  const { configuration, program, dtype, device, codePath } = start;
  const name = basename(resolve(run));
  const series = { train: [], val: [], norm: [], lr: [] };
  const reference = matchingReference(configuration);
  const report = reportData([{ name, configuration, series, events: [start] }], reference ? [reference] : []);
  return {
    // Figures of a run without points say nothing; the last table is that of configurations.
    report: { ...report, run: undefined, tables: report.tables.slice(-1) },
    steps: configuration.steps,
    on: `${program}, ${dtype}, ${device} (${codePath})`,
    ...measuresOf(start),
  };
}
