// Runs the live page: takes the server's events (events.ts), and updates the plot and the figures.
import type { About } from '../live/about.ts';
import { LoggedRun, stateOf } from '../logged-run.ts';
import type { MachineReading } from '../machine-load.ts';
import type { ReportData } from '../report-data.ts';
import { tilesOf } from '../tiles.ts';
import { byId, showLog, showSamples, showState, showTiles } from './elements.ts';
import { type Connection, listen } from './page-events.ts';
import { showPoints, showReport, startViewer } from './viewer.ts';

/** The page is updated no more often than a person can read. */
const drawMilliseconds = 250;

const run = new LoggedRun();
let about: About | undefined;
let machine: MachineReading | undefined;
/** Seconds since the log was written, and the time of that message. */
let quiet: { seconds: number | null; at: number } = { seconds: null, at: 0 };
let connection: Connection = 'lost';

/** The reference, and the run with the points it has so far. */
function currentReport(): ReportData | undefined {
  if (!about) return undefined;
  const { series } = run;
  const last = Math.max(series.train.steps.at(-1) ?? 0, series.val.steps.at(-1) ?? 0);
  const { curves } = about.report;
  return { ...about.report, curves: [...curves.slice(0, -1), { ...curves.at(-1)!, series }], last };
}

let hasNews = true;

function showAll(): void {
  hasNews = false;
  const report = currentReport();
  if (report) showPoints(report);
  showTiles(tilesOf(run, about, machine));
  showSamples(run);
  showLog(run);
  showProgress();
}

function showProgress(): void {
  const { seconds, at } = quiet;
  const passed = seconds === null ? null : seconds + (performance.now() - at) / 1000;
  showState(stateOf(run, { connection, quiet: passed, steps: about?.steps }));
  const name = about?.report.title ?? 'gpt2.ts';
  byId('title').textContent = name;
  document.title = about ? `${run.step}/${about.steps} ${name}` : name;
  const progress = byId('progress');
  progress.setAttribute('aria-valuemax', String(about?.steps ?? 1));
  progress.setAttribute('aria-valuenow', String(run.step));
  (progress.firstElementChild as HTMLElement).style.width = `${(100 * run.step) / (about?.steps ?? 1)}%`;
}

listen(
  {
    message: (lines) => run.add(lines),
    reset: () => run.clear(),
    about: (data) => {
      about = JSON.parse(data);
      const report = currentReport();
      if (report) showReport(report);
    },
    machine: (data) => {
      machine = JSON.parse(data);
    },
    idle: (data) => {
      quiet = { ...JSON.parse(data), at: performance.now() };
    },
  },
  {
    begin: () => run.clear(),
    news: (now) => {
      connection = now;
      if (now !== 'open') machine = undefined;
      hasNews = true;
    },
  },
);
setInterval(() => {
  if (hasNews) showAll();
}, drawMilliseconds);
setInterval(showProgress, 1000);
byId('sample-step').addEventListener('change', showAll);
startViewer();
showAll();
