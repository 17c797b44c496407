// Handles the controls of the plot: buttons, keys and gestures change one state, and the plot is drawn from this state.
import {
  type Choice,
  type Figure,
  FigureLines,
  legendOf,
  partsOf,
  plainChoice,
  type Shown,
  seriesLabels,
  shownNames,
} from '../figure.ts';
import { formatCount } from '../format-text.ts';
import { Chart } from './chart.ts';
import { byId, colorsOf, isDark, legendGroups, make, seriesButtons, startTheme, tableSection } from './elements.ts';
import type { View } from './picture.ts';
import { announce, fillTooltip, readingsAt } from './tooltip.ts';

type State = { -readonly [K in keyof (Choice & View)]: (Choice & View)[K] };

/** The figure on display. Empty until the first figure arrives. */
let data: Figure = {
  ...{ title: '', axis: { label: 'step', first: 0, last: 1 }, curves: [], baselines: 0, baseline: -1 },
  ...{ tokensPerStep: undefined, tables: [], sources: [], facts: [], run: undefined },
};
let lines = new FigureLines(data);
/** Last position on the horizontal axis; the view ends there at the latest. */
let last = 1;
let home = { from: 0, to: 1 };
/** The smoothing weight of the initial view; it grows with the number of steps. */
let light = lines.lightSmoothing;
/** The smoothing weights through which the key `s` cycles. */
const smoothings = [0, 0.6, 0.9, 0.97];

const state: State = {
  ...{ ...plainChoice, ...home, series: 'loss', smoothing: light },
  ...{ range: undefined, cursor: undefined },
};

const chart = new Chart(byId('chart'), {
  hover: (step) => {
    state.cursor = step;
    showTooltip();
  },
  zoomTo: (from, to, range) => {
    if (range) state.range = range;
    look(from, to);
  },
  move: (steps) => look(state.from + steps, state.to + steps),
  zoom,
  reset,
});

function change(changes: Partial<State>): void {
  // Drop the dragged vertical range, because it does not fit another series, axis or difference.
  const isOther = 'series' in changes || 'isLog' in changes || 'isDifference' in changes || 'baseline' in changes;
  Object.assign(state, isOther ? { range: undefined } : {}, changes);
  show();
}

let isDue = false;
/** Draws before the browser's next frame, once for all changes until then. */
function show(): void {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

function draw(): void {
  const band = lines.band(state);
  const { long } = seriesLabels[state.series];
  const from = data.curves[state.baseline]?.name;
  const compared = state.isLog ? `|difference| from ${from}: ${long}` : `${long} − ${from}`;
  const label = `${state.isDifference ? compared : long}${band ? '; shaded: within its limits' : ''}`;
  chart.show({
    view: state,
    lines: lines.lines(state),
    band,
    isLog: state.isLog,
    baseline: data.baseline,
    label,
    axis: data.axis,
    looks: data.curves.map((curve) => ({ colors: colorsOf(curve), dash: curve.dash })),
    isDark: isDark(),
  });
  byId('chart').setAttribute('aria-label', `${label}, ${state.isLog ? 'logarithmic, ' : ''}${describeView()}`);
  showControls();
  showTooltip();
}

function describeView(): string {
  const { unit } = data.axis;
  if (unit === undefined) return `steps ${Math.round(state.from)} to ${Math.round(state.to)}`;
  return `${formatCount(state.from)} to ${formatCount(state.to)} ${unit}`;
}

function showControls(): void {
  const press = (element: Element, isPressed: boolean) => element.setAttribute('aria-pressed', String(isPressed));
  for (const button of byId('series').children as HTMLCollectionOf<HTMLElement>) {
    press(button, button.dataset.series === state.series);
    button.hidden = !hasSeries(button.dataset.series as Shown);
  }
  press(byId('log'), state.isLog);
  press(byId('difference'), state.isDifference);
  byId('baseline-label').hidden = !state.isDifference;
  byId<HTMLSelectElement>('baseline').value = String(state.baseline);
  byId<HTMLInputElement>('smoothing').value = String(state.smoothing);
  byId('smoothing-value').textContent = String(state.smoothing);
  const legend = byId('legend');
  // Keep the legend's buttons if they are unchanged: new buttons would lose the focus and clicks in progress.
  const entries = JSON.stringify([legendOf(data, state.series), isDark()]);
  if (legend.dataset.entries !== entries) legend.replaceChildren(...legendGroups(data, state.series, toggleEntry));
  legend.dataset.entries = entries;
  for (const button of legend.querySelectorAll('button')) {
    press(button, !state.hidden.has(button.dataset.key!));
  }
}

function showTooltip(): void {
  const tooltip = byId('tooltip');
  const { cursor, from, to } = state;
  const readings = readingsAt(lines, data, state);
  tooltip.hidden = cursor === undefined || cursor < from || cursor > to || readings.length === 0 || chart.isDragging;
  if (tooltip.hidden || cursor === undefined) return;
  fillTooltip(tooltip, cursor, data, readings);
  const { x, right, top } = chart.placeOf(cursor);
  const hasRoom = right - x - 14 > tooltip.offsetWidth;
  const left = hasRoom ? x + 14 : Math.max(4, x - 14 - tooltip.offsetWidth);
  tooltip.style.transform = `translate(${left}px, ${top + 8}px)`;
}

/** Shows the section from `from` to `to`, moved or cut to fit into the axis. */
function look(from: number, to: number): void {
  const least = data.axis.unit === undefined ? 2 : last / 10_000;
  const length = Math.min(Math.max(to - from, least), last);
  const start = Math.min(Math.max((from + to) / 2 - length / 2, 0), last - length);
  change({ from: start, to: start + length });
}

/** @param factor of the view's width; below 1 zooms in @param around the step that stays at its place on the screen */
function zoom(factor: number, around = state.cursor ?? (state.from + state.to) / 2): void {
  const center = Math.min(Math.max(around, state.from), state.to);
  look(center - (center - state.from) * factor, center + (state.to - center) * factor);
}

/** Shows all steps, including the first percent that the initial view leaves out. */
const showEverything = () => change({ from: 0, to: home.to, range: undefined });

function reset(): void {
  change({ ...home, range: undefined });
}

/** Moves the cursor to a step and announces its values to screen readers. The view moves if the step is outside. */
function moveCursor(step: number | undefined): void {
  if (step === undefined) return;
  const length = state.to - state.from;
  state.cursor = step;
  if (step < state.from) look(step, step + length);
  else if (step > state.to) look(step - length, step);
  else chart.showCursor(step);
  showTooltip();
  byId('announcement').textContent = announce(data.axis, step, readingsAt(lines, data, state));
}

/** Moves the cursor in a direction: to the next value or, if `isFar`, by a tenth of the view. */
function stepCursor(direction: 1 | -1, isFar: boolean): void {
  const { cursor, from, to } = state;
  if (cursor === undefined) moveCursor(chart.stepNear((from + to) / 2));
  else if (isFar) moveCursor(chart.stepNear(cursor + (direction * (to - from)) / 10));
  else moveCursor(chart.stepNear(cursor, direction));
}

const hasSeries = (shown: Shown) =>
  data.curves.length === 0 || data.curves.some(({ series }) => partsOf(shown).some((part) => series[part]));

function choose(series: Shown): void {
  if (hasSeries(series)) change({ series });
}

function toggleDifference(): void {
  if (byId<HTMLButtonElement>('difference').disabled) return;
  // Ranked runs have no baseline (-1). When the reader asks for a difference, the first curve becomes the baseline.
  change({ isDifference: !state.isDifference, baseline: Math.max(0, state.baseline) });
}

function toggleEntry(key: string): void {
  const hidden = new Set(state.hidden);
  if (!hidden.delete(key)) hidden.add(key);
  change({ hidden });
}

let toggleTheme = () => {};

const toggleLog = () => change({ isLog: !state.isLog });
const zoomIn = () => zoom(0.5);
const zoomOut = () => zoom(2);

const keys: Readonly<Record<string, (isFar: boolean) => void>> = {
  '+': zoomIn,
  '=': zoomIn,
  '-': zoomOut,
  0: reset,
  a: showEverything,
  l: toggleLog,
  d: toggleDifference,
  s: () => change({ smoothing: smoothings.find((one) => one > state.smoothing + 1e-9) ?? 0 }),
  t: () => toggleTheme(),
  ...Object.fromEntries(shownNames.map((series, index) => [index + 1, () => choose(series)])),
};

const cursorKeys: typeof keys = {
  ArrowLeft: (isFar) => stepCursor(-1, isFar),
  ArrowRight: (isFar) => stepCursor(1, isFar),
  Home: () => moveCursor(chart.stepNear(state.from)),
  End: () => moveCursor(chart.stepNear(state.to)),
  Escape: () => change({ cursor: undefined }),
};

function listen(): void {
  document.addEventListener('keydown', (event) => {
    const { target, key, shiftKey, ctrlKey, metaKey, altKey } = event;
    const action = (target === byId('chart') && cursorKeys[key]) || keys[key];
    const isTyping = target instanceof HTMLElement && target.closest('select, input');
    if (!action || isTyping || ctrlKey || metaKey || altKey) return;
    event.preventDefault();
    action(shiftKey);
  });
  const zooms = { 'zoom-in': zoomIn, 'zoom-out': zoomOut, 'zoom-reset': reset, 'zoom-all': showEverything };
  const clicks = { log: toggleLog, difference: toggleDifference, ...zooms };
  for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener('click', action);
  const baseline = byId<HTMLSelectElement>('baseline');
  baseline.addEventListener('change', () => change({ baseline: Number(baseline.value) }));
  const smoothing = byId<HTMLInputElement>('smoothing');
  smoothing.addEventListener('input', () => change({ smoothing: Number(smoothing.value) }));
  new ResizeObserver(show).observe(byId('chart'));
}

export function showFigure(next: Figure): void {
  const isFirst = data.curves.length === 0;
  showPoints(next);
  if (isFirst || state.baseline >= next.curves.length) state.baseline = next.baseline;
  byId('baseline').replaceChildren(...data.curves.map(({ name }, curve) => new Option(name, String(curve))));
  // Disable the button for a single curve, and over tokens or seconds: differences need common steps.
  byId<HTMLButtonElement>('difference').disabled = data.curves.length < 2 || data.axis.unit !== undefined;
  byId('tables').replaceChildren(...data.tables.map(tableSection));
  byId('sources').replaceChildren(...data.sources.map((source) => make('div', source)));
}

/** Shows new points of the displayed curves. An initial view grows with the run. */
export function showPoints(next: Figure): void {
  const isWhole = state.from === home.from && state.to === home.to;
  const isLight = state.smoothing === light;
  data = next;
  lines = new FigureLines(data);
  last = lines.last;
  home = { from: data.axis.first, to: data.axis.last || 1 };
  if (isWhole) Object.assign(state, home);
  light = lines.lightSmoothing;
  if (isLight) state.smoothing = light;
  show();
}

export function startViewer(): void {
  toggleTheme = startTheme(show);
  byId('series').replaceChildren(...seriesButtons(choose));
  draw();
  listen();
}
