// The script of the HTML report, whose data is JSON inside the document.
import type { Figure } from '../figure.ts';
import { unpack } from '../points.ts';
import { byId, showFacts, showLog, showSamples, showState, showTiles } from './elements.ts';
import { showFigure, startViewer } from './viewer.ts';

const report: Figure = JSON.parse(byId('data').textContent ?? '', unpack);
showFigure(report);
startViewer();
const { run } = report;
if (run) {
  showState(run.end);
  showFacts([...report.facts, ...run.seen]);
  showTiles(run.tiles);
  showLog(run);
}
if (run && run.samples.length > 0) {
  byId('sample-step').addEventListener('change', () => showSamples(run));
  showSamples(run);
}
