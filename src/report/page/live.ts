// The script of a run's live page: receives the server's events (page-events.ts), and updates the plot and the numbers.
import { type Figure, firstShown } from '../figure.ts';
import type { About } from '../live/server.ts';
import { LoggedRun, stateOf } from '../logged-run.ts';
import type { MachineReading } from '../machine-load.ts';
import { seenOf, tilesOf } from '../tiles.ts';
import { byId, showFacts, showLog, showSamples, showState, showTiles } from './elements.ts';
import { type Connection, listen } from './page-events.ts';
import { showFigure, showPoints, startViewer } from './viewer.ts';

/** Least interval between two updates of the page, because nobody reads faster. */
const drawMilliseconds = 250;

let run = new LoggedRun();
let about: About | undefined;
let machine: MachineReading | undefined;
/** `seconds`: from the last write of the log to the last `idle` event; `at`: when that event came (performance.now, ms). */
let quiet: { seconds: number | null; at: number } = { seconds: null, at: 0 };
let connection: Connection = 'lost';

/** The figure of the `about` event with the run's points received so far; undefined before that event. */
function currentFigure(): Figure | undefined {
  if (!about) return undefined;
  const { train, val } = run.series;
  const last = Math.max(train.steps.at(-1) ?? 0, val.steps.at(-1) ?? 0);
  const { curves, axis } = about.figure;
  // Copy the points into new objects, because the plot takes an identical object for unchanged points.
  const series = Object.fromEntries(Object.entries(run.series).map(([name, points]) => [name, { ...points }]));
  return {
    ...about.figure,
    curves: [...curves.slice(0, -1), { ...curves.at(-1)!, series }],
    axis: { ...axis, first: firstShown(last), last },
  };
}

let hasNews = true;

function showAll(): void {
  hasNews = false;
  const figure = currentFigure();
  if (figure) showPoints(figure);
  showFacts(about ? [...about.figure.facts, ...seenOf(run, about.epoch)] : []);
  showTiles(tilesOf(run, about, machine));
  showSamples(run);
  showLog(run);
  showProgress();
}

function showProgress(): void {
  const { seconds, at } = quiet;
  const passed = seconds === null ? null : seconds + (performance.now() - at) / 1000;
  showState(stateOf(run, { connection, quiet: passed, steps: about?.steps }));
  const name = about?.figure.title ?? 'gpt2.ts';
  byId('title').textContent = name;
  document.title = about ? `${run.step}/${about.steps} ${name}` : name;
  const progress = byId('progress');
  progress.setAttribute('aria-valuemax', String(about?.steps ?? 1));
  progress.setAttribute('aria-valuenow', String(run.step));
  (progress.firstElementChild as HTMLElement).style.width = `${(100 * run.step) / (about?.steps ?? 1)}%`;
}

/** Drops the run's data, because the log is about to be received from its beginning. */
const forget = () => {
  run = new LoggedRun();
};

listen(
  {
    message: (lines) => run.add(lines),
    reset: forget,
    about: (data) => {
      about = JSON.parse(data);
      const figure = currentFigure();
      if (figure) showFigure(figure);
    },
    machine: (data) => {
      machine = JSON.parse(data);
    },
    idle: (data) => {
      quiet = { ...JSON.parse(data), at: performance.now() };
    },
  },
  {
    begin: forget,
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
