// Runs the HTML report, whose data is in the document.
import type { ReportData } from '../report-data.ts';
import { byId, showLog, showSamples, showState, showTiles } from './elements.ts';
import { showReport, startViewer } from './viewer.ts';

const report: ReportData = JSON.parse(byId('data').textContent ?? '');
showReport(report);
startViewer();
const { run } = report;
if (run) {
  showState(run.end);
  showTiles(run.tiles);
  showLog(run);
}
if (run && run.samples.length > 0) {
  byId('sample-step').addEventListener('change', () => showSamples(run));
  showSamples(run);
}
