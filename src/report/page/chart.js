// @ts-check
// Draws lines over axes on a canvas, and the cursor on a second one above it, so that moving the cursor draws no curve
// anew. Which lines and how far the axes go is left to model.js, what the reader does to page.js.
import { formatter, logTicks, ticks } from './axis.js';
import { firstFrom, item, nearest, thin } from './points.js';

/** @typedef {import('./points.js').Points} Points */
/** @typedef {import('./model.js').Line} Line */
/** @typedef {import('./model.js').Range} Range */

/**
 * Where values lie on the canvas, in CSS pixels, and back.
 * @typedef {{ left: number, right: number, top: number, bottom: number, x: (step: number) => number,
 *   y: (value: number) => number, step: (x: number) => number, value: (y: number) => number }} Frame
 */

/**
 * @typedef {{ lines: readonly Line[], band: Points | undefined, from: number, to: number, range: Range, isLog: boolean,
 *   label: string, xLabel: string, baseline: number,
 *   looks: readonly { color: string, dash: readonly number[] }[] }} Picture
 */

const font = '12px system-ui, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif';

/** @param {string} name of a colour in page.css */
const colorOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/**
 * A canvas' context, cleared, in CSS pixels at the screen's own resolution.
 * @param {HTMLCanvasElement} canvas
 */
function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  // Setting a size clears, and forgets every setting.
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.scale(ratio, ratio);
  context.font = font;
  return { context, width, height };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Picture} picture
 * @returns {Frame}
 */
export function drawPicture(canvas, picture) {
  const { context, width, height } = prepare(canvas);
  const { from, to, range, isLog, lines, band } = picture;
  const [low, high] = isLog ? [Math.log10(range.low), Math.log10(range.high)] : [range.low, range.high];
  const [top, bottom, right] = [36, height - 50, width - 22];
  // Between two powers of ten there may be no round number: then the axis is marked as a linear one.
  const marked = isLog ? logTicks(low, high) : [];
  const marks = marked.length > 2 ? marked : ticks(range.low, range.high, Math.max(2, (bottom - top) / 56));
  const format = formatter(marks, marked.length > 2);
  const left = Math.ceil(Math.max(30, ...marks.map((mark) => context.measureText(format(mark)).width))) + 20;
  /** @type {Frame} */
  const frame = {
    left,
    right,
    top,
    bottom,
    x: (step) => left + ((step - from) / (to - from)) * (right - left),
    // What has no logarithm lies on the axis.
    y: (value) =>
      bottom - (((isLog ? Math.log10(Math.max(value, range.low)) : value) - low) / (high - low)) * (bottom - top),
    step: (x) => from + ((x - left) / (right - left)) * (to - from),
    value: (y) => {
      const place = low + ((bottom - y) / (bottom - top)) * (high - low);
      return isLog ? 10 ** place : place;
    },
  };
  drawAxes(context, frame, picture, { marks, format });
  if (band) clipped(context, frame, () => drawBand(context, frame, picture, band));
  if (range.low < 0 && range.high > 0 && !isLog) drawRule(context, frame, frame.y(0));
  for (const line of lines) {
    clipped(context, frame, () => drawLine(context, frame, picture, line));
    drawDots(context, frame, picture, line);
  }
  return frame;
}

/** @param {CanvasRenderingContext2D} context @param {Frame} frame @param {() => void} draw what is cut off at the axes */
function clipped(context, { left, right, top, bottom }, draw) {
  context.save();
  context.beginPath();
  context.rect(left, top, right - left, bottom - top);
  context.clip();
  draw();
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Frame} frame
 * @param {Picture} picture
 * @param {{ marks: readonly number[], format: (mark: number) => string }} vertical
 */
function drawAxes(context, frame, { from, to, label, xLabel }, { marks, format }) {
  const { left, right, top, bottom, x, y } = frame;
  /** @param {number} at */
  const sharp = (at) => Math.round(at) + 0.5;
  context.strokeStyle = colorOf('grid');
  context.fillStyle = colorOf('quiet');
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  context.beginPath();
  for (const mark of marks) {
    context.moveTo(left, sharp(y(mark)));
    context.lineTo(right, sharp(y(mark)));
    context.fillText(format(mark), left - 9, y(mark));
  }
  context.textAlign = 'center';
  context.textBaseline = 'top';
  // There is no half a step.
  const steps = ticks(from, to, Math.max(2, (right - left) / 100)).filter(Number.isInteger);
  const formatStep = formatter(steps, false);
  for (const step of steps) {
    context.moveTo(sharp(x(step)), top);
    context.lineTo(sharp(x(step)), bottom);
    context.fillText(formatStep(step), x(step), bottom + 8);
  }
  context.stroke();
  context.strokeStyle = colorOf('axis');
  context.beginPath();
  context.moveTo(sharp(left), top);
  context.lineTo(sharp(left), sharp(bottom));
  context.lineTo(right, sharp(bottom));
  context.stroke();
  context.fillStyle = colorOf('text');
  context.fillText(xLabel, (left + right) / 2, bottom + 29);
  context.textAlign = 'left';
  context.fillText(label, 14, 11);
}

/** @param {CanvasRenderingContext2D} context @param {Frame} frame @param {number} y */
function drawRule(context, { left, right }, y) {
  context.strokeStyle = colorOf('axis');
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(left, Math.round(y) + 0.5);
  context.lineTo(right, Math.round(y) + 0.5);
  context.stroke();
}

/**
 * The band that limits leave: one field for each stretch of steps that a limit speaks of.
 * @param {CanvasRenderingContext2D} context
 * @param {Frame} frame
 * @param {Picture} picture
 * @param {Points} band
 */
function drawBand(context, frame, { from, to, isLog }, band) {
  const { steps, values } = thin(band, from, to, frame.right - frame.left);
  context.strokeStyle = colorOf('band');
  context.fillStyle = colorOf('band');
  for (let start = 0; start < steps.length; ) {
    let end = start;
    while (end < steps.length && Number.isFinite(values[end])) end += 1;
    const stretch = Array.from(steps.subarray(start, end), (step, index) => ({
      x: frame.x(step),
      within: item(values, start + index),
    }));
    const over = stretch.map(({ x, within }) => /** @type {const} */ ([x, frame.y(within)]));
    const under = stretch.map(({ x, within }) => /** @type {const} */ ([x, isLog ? frame.bottom : frame.y(-within)]));
    context.globalAlpha = 0.13;
    context.beginPath();
    for (const [x, y] of [...over, ...under.reverse()]) context.lineTo(x, y);
    context.fill();
    context.globalAlpha = 0.7;
    for (const edge of isLog ? [over] : [over, under]) {
      context.beginPath();
      for (const [x, y] of edge) context.lineTo(x, y);
      context.stroke();
    }
    start = end + 1;
  }
  context.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Frame} frame
 * @param {Picture} picture
 * @param {Line} line
 */
function drawLine(context, frame, { from, to, looks, baseline }, { curve, points, smoothed }) {
  const { color, dash } = looks[curve] ?? { color: '#888', dash: [] };
  const width = frame.right - frame.left;
  context.strokeStyle = color;
  context.lineJoin = 'round';
  const seen = thin(points, from, to, width);
  // Dashes tell two equal curves apart; on a curve as dense as the screen they would be noise.
  const isSparse = seen.steps.length < width / 4;
  context.globalAlpha = smoothed ? 0.3 : 1;
  // What runs are laid over is drawn first and wider: where curves are equal, both are seen.
  const isBeneath = curve === baseline;
  // A curve denser than the screen is a field whose lines may be thin: without a GPU they are drawn six times as fast.
  const isDense = seen.steps.length > 2 * width;
  context.lineWidth = smoothed || isDense ? 1 : isBeneath ? 4.6 : 1.6;
  context.setLineDash(isSparse ? [...dash] : []);
  trace(context, frame, seen);
  context.setLineDash([]);
  context.globalAlpha = 1;
  if (!smoothed) return;
  context.lineWidth = isBeneath ? 5 : 2;
  trace(context, frame, thin(smoothed, from, to, width));
}

/**
 * Where there are few values, each; one at the end of an axis is whole.
 * @param {CanvasRenderingContext2D} context
 * @param {Frame} frame
 * @param {Picture} picture
 * @param {Line} line
 */
function drawDots(context, frame, { from, to, looks }, { curve, points, smoothed }) {
  const width = frame.right - frame.left;
  const { steps, values } = thin(points, from, to, width);
  if (steps.length >= width / 16) return;
  context.fillStyle = looks[curve]?.color ?? '#888';
  context.globalAlpha = smoothed ? 0.3 : 1;
  for (const [index, step] of steps.entries()) {
    if (step >= from && step <= to) drawDot(context, frame, step, values[index], 3);
  }
  context.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} context @param {Frame} frame @param {Points} points */
function trace(context, { x, y }, { steps, values }) {
  context.beginPath();
  let isDrawing = false;
  for (let at = 0; at < steps.length; at += 1) {
    const value = item(values, at);
    const isPoint = Number.isFinite(value);
    if (isPoint && isDrawing) context.lineTo(x(item(steps, at)), y(value));
    else if (isPoint) context.moveTo(x(item(steps, at)), y(value));
    isDrawing = isPoint;
  }
  context.stroke();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Frame} frame
 * @param {number} step
 * @param {number | undefined} value
 * @param {number} radius of a dot that is in view
 */
function drawDot(context, { x, y, top, bottom }, step, value, radius) {
  if (value === undefined || !Number.isFinite(value)) return;
  const height = y(value);
  if (height < top - 1 || height > bottom + 1) return;
  context.beginPath();
  context.arc(x(step), height, radius, 0, 2 * Math.PI);
  context.fill();
}

/**
 * The cursor with a dot on each curve, and the rectangle that is being dragged.
 * @param {HTMLCanvasElement} canvas
 * @param {Frame} frame
 * @param {Picture} picture
 * @param {{ cursor: number | undefined, box: { left: number, right: number, top: number, bottom: number } | undefined }} over
 */
export function drawOverlay(canvas, frame, { lines, looks, from, to }, { cursor, box }) {
  const { context } = prepare(canvas);
  if (box) {
    context.fillStyle = colorOf('accent');
    context.globalAlpha = 0.16;
    context.fillRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    context.globalAlpha = 1;
  }
  if (cursor === undefined || cursor < from || cursor > to) return;
  const x = Math.round(frame.x(cursor)) + 0.5;
  context.strokeStyle = colorOf('axis');
  context.beginPath();
  context.moveTo(x, frame.top);
  context.lineTo(x, frame.bottom);
  context.stroke();
  for (const { curve, points, smoothed } of lines) {
    const { steps, values } = smoothed ?? points;
    const place = valueNear(steps, cursor);
    if (place === undefined) continue;
    context.fillStyle = looks[curve]?.color ?? '#888';
    drawDot(context, frame, item(steps, place), item(values, place), 4);
  }
}

/**
 * Place of the point that stands for a curve at a step: the nearest one, unless the curve has begun later or ended before.
 * @param {Float64Array} steps
 * @param {number} step
 * @returns {number | undefined}
 */
export function valueNear(steps, step) {
  const place = nearest(steps, step);
  const after = firstFrom(steps, step);
  if (place < 0 || (steps[place] !== step && (after === 0 || after === steps.length))) return undefined;
  return place;
}
