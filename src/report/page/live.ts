// Runs the live page: takes the server's events, updates the plot and the figures, and reconnects by itself.
import type { About } from '../../live/about.ts';
import type { MachineReading } from '../../live/machine-load.ts';
import { LoggedRun, stateOf } from '../logged-run.ts';
import type { ReportData } from '../report-data.ts';
import { tilesOf } from '../tiles.ts';
import { byId, showLog, showSamples, showState, showTiles } from './elements.ts';
import { showPoints, showReport, startViewer } from './viewer.ts';

/** The page is updated no more often than a person can read. */
const drawMilliseconds = 250;
/** The server sends something every five seconds; after this long the connection is broken, even if the browser keeps it. */
const silentMilliseconds = 20_000;
const againMilliseconds = 3000;

const run = new LoggedRun();
let about: About | undefined;
let machine: MachineReading | undefined;
/** Seconds since the log was written, and the time of that message. */
let quiet: { seconds: number | null; at: number } = { seconds: null, at: 0 };
let connection: 'open' | 'closed' | 'lost' = 'lost';
let heard = performance.now();
let source: EventSource | undefined;

/** The reference, and the run with the points it has so far. */
function currentReport(): ReportData | undefined {
  if (!about) return undefined;
  const { series } = run;
  const lastStep = Math.max(series.train.steps.at(-1) ?? 0, series.val.steps.at(-1) ?? 0);
  const { curves } = about.report;
  return { ...about.report, curves: [...curves.slice(0, -1), { ...curves.at(-1)!, series }], lastStep };
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

function connect(): void {
  // A new source starts from the beginning; one that the browser reconnects continues.
  run.clear();
  heard = performance.now();
  source?.close();
  source = new EventSource('/events');
  const listen = (name: string, take: (data: string) => void) =>
    source?.addEventListener(name, ({ data }: MessageEvent<string>) => {
      heard = performance.now();
      connection = 'open';
      take(data);
      hasNews = true;
    });
  listen('message', (lines) => run.add(lines));
  listen('reset', () => run.clear());
  listen('about', (data) => {
    about = JSON.parse(data);
    const report = currentReport();
    if (report) showReport(report);
  });
  listen('machine', (data) => {
    machine = JSON.parse(data);
  });
  listen('idle', (data) => {
    quiet = { ...JSON.parse(data), at: performance.now() };
  });
  listen('closed', () => {
    connection = 'closed';
  });
  source.addEventListener('error', () => {
    if (connection === 'open') connection = 'lost';
    machine = undefined;
    hasNews = true;
    // The server refused (too many viewers, another server), and the browser does not try again.
    if (source?.readyState === EventSource.CLOSED) setTimeout(connect, againMilliseconds);
  });
}

setInterval(() => {
  if (hasNews) showAll();
}, drawMilliseconds);
setInterval(() => {
  if (performance.now() - heard > silentMilliseconds) connect();
  showProgress();
}, 1000);
byId('sample-step').addEventListener('change', showAll);
startViewer();
connect();
showAll();
