// @ts-check
// The script of the HTML report: its data lies in the document.
import { showLog, showSamples, showState, showTiles } from './figures.js';
import { showReport, startViewer } from './viewer.js';

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/** @type {import('../report-data.ts').ReportData} */
const report = JSON.parse(byId('data').textContent);
showReport(report);
startViewer();
if (report.run) showRun(report.run);

/** @param {import('../run-figures.ts').RunFigures} run */
function showRun(run) {
  showState(byId('state'), run.end);
  showTiles(byId('tiles'), run.tiles);
  showLog(byId('log-tail'), run);
  if (run.samples.length === 0) return;
  const show = () => showSamples(byId('sample-step'), byId('sample'), run);
  byId('sample-step').addEventListener('change', show);
  show();
}
