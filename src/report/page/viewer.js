// @ts-check
// The plot with its controls and keys, and one state that they and the pointer change. What the pointer does is in
// pointer.js, what is to be seen for a state in model.js, drawing in chart.js, the values at the cursor in tooltip.js, buttons and tables
// in build.js.
import { baselineOptions, legendButtons, seriesButtons, sourceRows, tableSection } from './build.js';
import { drawOverlay, drawPicture } from './chart.js';
import { Model, rangeOf, seriesLabels } from './model.js';
import { watchPointer } from './pointer.js';
import { announce, fillTooltip, readingsAt } from './tooltip.js';

/** @typedef {import('./chart.js').Frame} Frame */
/** @typedef {import('./chart.js').Picture} Picture */
/** @typedef {import('./model.js').ReportData} ReportData */
/** @typedef {import('./model.js').State} State */
/** @typedef {import('./model.js').PlottedSeries} PlottedSeries */

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id);

/** What is shown until there is something. @type {ReportData} */
let data = { title: '', curves: [], baseline: -1, lastStep: 0, tables: [], sources: [] };
let model = new Model(data);
let whole = model.extent();
let home = { from: 0, to: 1 };
const seriesNames = /** @type {PlottedSeries[]} */ (Object.keys(seriesLabels));
/** Smoothing that the key goes through. */
const smoothings = [0, 0.6, 0.9, 0.97];

/** @type {State} */
const state = {
  series: 'train',
  isLog: false,
  isDifference: false,
  baseline: -1,
  smoothing: 0,
  hidden: new Set(),
  ...home,
  range: undefined,
  cursor: undefined,
};
/** @type {Frame} */
let frame;
/** @type {Picture} */
let picture;
/** What is being dragged. @type {import('./pointer.js').Box | undefined} */
let box;

const isDark = () => document.documentElement.dataset.theme === 'dark';
const colors = () => data.curves.map(({ light, dark }) => (isDark() ? dark : light));

/** Changes the state and shows what comes of it. @param {Partial<State>} changes */
function change(changes) {
  // Another series, axis or kind of value has other numbers: a range that was dragged means nothing there.
  const kept = 'series' in changes || 'isLog' in changes || 'isDifference' in changes || 'baseline' in changes;
  Object.assign(state, kept ? { range: undefined } : {}, changes);
  show();
}

let isDue = false;
/** Draws before the screen's next picture, however often it was asked for. */
function show() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

function draw() {
  const lines = model.lines(state);
  const band = model.band(state);
  const { long } = seriesLabels[state.series];
  const from = data.curves[state.baseline]?.name;
  const label = !state.isDifference ? long : state.isLog ? `|difference| from ${from}: ${long}` : `${long} − ${from}`;
  picture = {
    lines,
    band,
    from: state.from,
    to: state.to,
    range: rangeOf(lines, band, state),
    isLog: state.isLog,
    baseline: data.baseline,
    label: band ? `${label}; shaded: within its limits` : label,
    xLabel: data.tokensPerStep ? `step (${data.tokensPerStep.toLocaleString('en-US')} tokens each)` : 'step',
    looks: data.curves.map(({ dash }, index) => ({ color: colors()[index] ?? '#888', dash })),
  };
  frame = drawPicture(element('plot'), picture);
  const steps = `steps ${Math.round(state.from)} to ${Math.round(state.to)}`;
  element('chart').setAttribute('aria-label', `${picture.label}, ${state.isLog ? 'logarithmic, ' : ''}${steps}`);
  showControls();
  showCursor();
}

function showControls() {
  for (const button of element('series').children) {
    button.setAttribute('aria-pressed', String(button.dataset.series === state.series));
    button.hidden = !hasSeries(button.dataset.series);
  }
  element('log').setAttribute('aria-pressed', String(state.isLog));
  element('difference').setAttribute('aria-pressed', String(state.isDifference));
  element('baseline-label').hidden = !state.isDifference;
  element('baseline').value = String(state.baseline);
  element('smoothing').value = String(state.smoothing);
  element('smoothing-value').textContent = String(state.smoothing);
  for (const [index, button] of [...element('legend').children].entries()) {
    button.setAttribute('aria-pressed', String(!state.hidden.has(index)));
    button.querySelector('line').setAttribute('stroke', colors()[index]);
  }
  element('theme').textContent = isDark() ? 'Light' : 'Dark';
}

function showCursor() {
  drawOverlay(element('overlay'), frame, picture, { cursor: state.cursor, box });
  const tooltip = element('tooltip');
  const { cursor } = state;
  const readings = readingsAt(model, data, state);
  tooltip.hidden = cursor === undefined || cursor < state.from || cursor > state.to || readings.length === 0 || !!box;
  if (tooltip.hidden || cursor === undefined) return;
  fillTooltip(tooltip, { step: cursor, tokens: data.tokensPerStep, readings, colors: colors() });
  const x = frame.x(cursor);
  const room = frame.right - x - 14;
  const left = room > tooltip.offsetWidth ? x + 14 : Math.max(4, x - 14 - tooltip.offsetWidth);
  tooltip.style.transform = `translate(${left}px, ${frame.top + 8}px)`;
}

/** Shows steps `from` to `to`, as far as there are any. @param {number} from @param {number} to */
function look(from, to) {
  const least = Math.min(2, whole.to - whole.from);
  const length = Math.min(Math.max(to - from, least), whole.to - whole.from);
  const start = Math.min(Math.max((from + to) / 2 - length / 2, whole.from), whole.to - length);
  change({ from: start, to: start + length });
}

/** @param {number} factor under 1: nearer @param {number} [around] a step that stays where it is */
function zoom(factor, around = state.cursor ?? (state.from + state.to) / 2) {
  const center = Math.min(Math.max(around, state.from), state.to);
  look(center - (center - state.from) * factor, center + (state.to - center) * factor);
}

const reset = () => change({ ...home, range: undefined });

/** Puts the cursor at a step, and the view where the cursor is. @param {number} step */
function moveCursor(step) {
  const length = state.to - state.from;
  state.cursor = step;
  if (step < state.from) look(step, step + length);
  else if (step > state.to) look(step - length, step);
  else showCursor();
  element('announcement').textContent = announce(step, readingsAt(model, data, state));
}

/** @param {PlottedSeries} series */
const hasSeries = (series) => data.curves.length === 0 || data.curves.some((curve) => curve.series[series]);

/** @param {PlottedSeries} series */
function choose(series) {
  if (hasSeries(series)) change({ series });
}

const toggleDifference = () => {
  if (state.baseline >= 0) change({ isDifference: !state.isDifference });
};

const system = matchMedia('(prefers-color-scheme: dark)');

/** As the system is, until the reader chooses. */
function followSystem() {
  document.documentElement.dataset.theme = system.matches ? 'dark' : 'light';
  show();
}

function toggleTheme() {
  system.removeEventListener('change', followSystem);
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  show();
}

const nextSmoothing = () => smoothings.find((one) => one > state.smoothing + 1e-9) ?? 0;

/** @type {Record<string, () => void>} */
const keys = {
  '+': () => zoom(0.5),
  '=': () => zoom(0.5),
  '-': () => zoom(2),
  0: reset,
  l: () => change({ isLog: !state.isLog }),
  d: toggleDifference,
  s: () => change({ smoothing: nextSmoothing() }),
  t: toggleTheme,
  ...Object.fromEntries(seriesNames.map((series, index) => [index + 1, () => choose(series)])),
};

/** Keys of the plot itself. @type {Record<string, (isFar: boolean) => void>} */
const cursorKeys = {
  ArrowLeft: (isFar) => step(-1, isFar),
  ArrowRight: (isFar) => step(1, isFar),
  Home: () => moveCursor(model.nearestStep(state, state.from) ?? state.from),
  End: () => moveCursor(model.nearestStep(state, state.to) ?? state.to),
  Escape: () => change({ cursor: undefined }),
};

/** To the next value, or a tenth of the view further. @param {1 | -1} direction @param {boolean} isFar */
function step(direction, isFar) {
  const { cursor, from, to } = state;
  if (cursor === undefined) return moveCursor(model.nearestStep(state, (from + to) / 2) ?? from);
  const far = cursor + (direction * (to - from)) / 10;
  moveCursor(isFar ? (model.nearestStep(state, far) ?? cursor) : model.neighbour(state, cursor, direction));
}

function listen() {
  const chart = element('chart');
  watchPointer(chart, {
    frame: () => frame,
    hover: (at) => {
      state.cursor = at === undefined ? at : model.nearestStep(state, Math.min(Math.max(at, state.from), state.to));
      showCursor();
    },
    drag: (dragged) => {
      box = dragged;
      showCursor();
    },
    zoomTo: (from, to, range) => {
      if (range) state.range = range;
      look(from, to);
    },
    move: (steps) => look(state.from + steps, state.to + steps),
    zoom,
    reset,
  });
  chart.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    const action = cursorKeys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action(event.shiftKey);
  });
  document.addEventListener('keydown', (event) => {
    const action = keys[event.key];
    const isTyping = event.target instanceof HTMLElement && event.target.closest('select, input');
    if (!action || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  element('log').addEventListener('click', keys.l);
  element('difference').addEventListener('click', toggleDifference);
  element('theme').addEventListener('click', toggleTheme);
  element('zoom-in').addEventListener('click', keys['+']);
  element('zoom-out').addEventListener('click', keys['-']);
  element('zoom-reset').addEventListener('click', reset);
  element('baseline').addEventListener('change', () => change({ baseline: Number(element('baseline').value) }));
  element('smoothing').addEventListener('input', () => change({ smoothing: Number(element('smoothing').value) }));
  new ResizeObserver(show).observe(chart);
}

/** Shows a report in place of what was shown. @param {ReportData} next */
export function showReport(next) {
  const isFirst = data.curves.length === 0;
  showPoints(next);
  if (isFirst || state.baseline >= next.curves.length) state.baseline = next.baseline;
  element('baseline').replaceChildren(...baselineOptions(data.curves));
  element('difference').disabled = state.baseline < 0;
  const toggle = (/** @type {number} */ curve) => {
    if (!state.hidden.delete(curve)) state.hidden.add(curve);
    show();
  };
  element('legend').replaceChildren(...legendButtons(data, toggle));
  element('tables').replaceChildren(...data.tables.map(tableSection));
  element('sources').replaceChildren(...sourceRows(data.sources));
}

/** Shows other points of the same curves. A view of the whole run stays one. @param {ReportData} next */
export function showPoints(next) {
  const isWhole = state.from === home.from && state.to === home.to;
  data = next;
  model = new Model(data);
  whole = model.extent();
  home = { from: 0, to: Math.max(1, data.lastStep) };
  if (isWhole) Object.assign(state, home);
  show();
}

/** Puts the plot and its controls to work. */
export function startViewer() {
  system.addEventListener('change', followSystem);
  followSystem();
  element('series').replaceChildren(...seriesButtons(choose));
  draw();
  listen();
}
