// Collects facts for a run's live page that its log lacks: its name, its reference curves, the measures of its throughput.
import { basename, resolve } from 'node:path';
import { matchingReference } from '../compare/reference.ts';
import { type ReportData, reportData } from '../report/report-data.ts';
import { type Measures, measuresOf } from '../report/run-figures.ts';
import type { RunStart } from './log-tail.ts';

export interface About extends Measures {
  /** The page's report; the run is its last curve, without points. */
  readonly report: ReportData;
  readonly steps: number;
  /** "gpt2.ts 0.1.0, bf16, NVIDIA H100 80GB HBM3 (sm90)" */
  readonly on: string;
}

/** @param run the run's folder; viewers see only its last part */
export function aboutRun(run: string, start: RunStart): About {
  const { configuration, program, dtype, device, codePath } = start;
  const name = basename(resolve(run));
  const series = { train: [], val: [], norm: [], lr: [] };
  const reference = matchingReference(configuration);
  const report = reportData([{ name, configuration, series, events: [start] }], reference ? [reference] : []);
  return {
    // Without points only the last table, the configurations, has content.
    report: { ...report, run: undefined, tables: report.tables.slice(-1) },
    steps: configuration.steps,
    on: `${program}, ${dtype}, ${device} (${codePath})`,
    ...measuresOf(start),
  };
}
