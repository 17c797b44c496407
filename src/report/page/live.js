// @ts-check
// The script of the live page: takes the server's events, tells the plot and the figures, and comes back by itself when
// the connection breaks.
import { showLog, showSamples, showState, showTiles } from './figures.js';
import { LoggedRun, stateOf } from './logged-run.js';
import { tilesOf } from './tiles.js';
import { showPoints, showReport, startViewer } from './viewer.js';

/** @typedef {import('../../live/about.ts').About} About */
/** @typedef {import('../../live/machine.ts').MachineReading} MachineReading */

/** The page is drawn anew no more often than somebody can read. */
const drawMilliseconds = 250;
/** The server says something every five seconds; after this long the connection is broken, whatever the browser thinks. */
const silentMilliseconds = 20_000;
const againMilliseconds = 3000;

const run = new LoggedRun();
/** @type {About | undefined} */
let about;
/** @type {MachineReading | undefined} */
let machine;
/** Seconds since the log was written, and when that was said. */
let quiet = { seconds: /** @type {number | null} */ (null), at: 0 };
/** @type {'open' | 'closed' | 'lost'} */
let connection = 'lost';
let heard = performance.now();
/** @type {EventSource | undefined} */
let source;

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/** The reference, and the run with the points it has so far. */
function currentReport() {
  if (!about) return undefined;
  const { series } = run;
  const lastStep = Math.max(series.train.steps.at(-1) ?? 0, series.val.steps.at(-1) ?? 0);
  const curves = about.report.curves.map((curve, index, all) =>
    index === all.length - 1 ? { ...curve, series } : curve,
  );
  return { ...about.report, curves, lastStep };
}

let isWaiting = false;
function soon() {
  if (isWaiting) return;
  isWaiting = true;
  setTimeout(() => {
    isWaiting = false;
    showAll();
  }, drawMilliseconds);
}

function showAll() {
  const points = currentReport();
  if (points) showPoints(points);
  showTiles(byId('tiles'), tilesOf(run, about, machine));
  showSamples(byId('sample-step'), byId('sample'), run);
  showLog(byId('log-tail'), run);
  showProgress();
}

function showProgress() {
  const { seconds, at } = quiet;
  const passed = seconds === null ? null : seconds + (performance.now() - at) / 1000;
  showState(byId('state'), stateOf(run, { connection, quiet: passed, steps: about?.steps }));
  const name = about?.report.title ?? 'gpt2.ts';
  byId('title').textContent = name;
  document.title = about ? `${run.step}/${about.steps} ${name}` : name;
  const progress = byId('progress');
  progress.setAttribute('aria-valuemax', String(about?.steps ?? 1));
  progress.setAttribute('aria-valuenow', String(run.step));
  progress.firstElementChild.style.width = `${(100 * run.step) / (about?.steps ?? 1)}%`;
}

/** @param {MessageEvent<string>} message */
const hear = ({ data }) => {
  heard = performance.now();
  connection = 'open';
  soon();
  return data;
};

function connect() {
  // A new source tells all from the beginning; one that the browser reconnects goes on where it was.
  run.clear();
  heard = performance.now();
  source?.close();
  source = new EventSource('/events');
  source.addEventListener('message', (message) => run.add(hear(message)));
  source.addEventListener('anew', (message) => {
    hear(message);
    run.clear();
  });
  source.addEventListener('about', (message) => {
    about = JSON.parse(hear(message));
    const first = currentReport();
    if (first) showReport(first);
  });
  source.addEventListener('machine', (message) => {
    machine = JSON.parse(hear(message));
  });
  source.addEventListener('quiet', (message) => {
    quiet = { ...JSON.parse(hear(message)), at: performance.now() };
  });
  source.addEventListener('closed', (message) => {
    hear(message);
    connection = 'closed';
  });
  source.addEventListener('error', () => {
    if (connection === 'open') connection = 'lost';
    machine = undefined;
    soon();
    // Refused (too many viewers, another server): the browser gives up.
    if (source?.readyState === EventSource.CLOSED) setTimeout(connect, againMilliseconds);
  });
}

setInterval(() => {
  if (performance.now() - heard > silentMilliseconds) connect();
  showProgress();
}, 1000);
byId('sample-step').addEventListener('change', showAll);
startViewer();
connect();
showAll();
