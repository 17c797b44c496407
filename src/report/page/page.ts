// Runs the HTML report, whose data is in the document.
import type { ReportData } from '../report-data.ts';
import type { RunFigures } from '../run-figures.ts';
import { byId, showLog, showSamples, showState, showTiles } from './elements.ts';
import { showReport, startViewer } from './viewer.ts';

const report: ReportData = JSON.parse(byId('data').textContent ?? '');
showReport(report);
startViewer();
if (report.run) showRun(report.run);

function showRun(run: RunFigures): void {
  showState(run.end);
  showTiles(run.tiles);
  showLog(run);
  if (run.samples.length === 0) return;
  byId('sample-step').addEventListener('change', () => showSamples(run));
  showSamples(run);
}
