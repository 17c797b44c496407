// @ts-check
// Mouse, pen, finger and wheel over the plot, as what they mean: hovering, dragging a box, moving the view, zooming. What
// comes of that is told by the caller, page.js.

/** @typedef {import('./chart.js').Frame} Frame */
/** @typedef {{ x: number, y: number }} Place */
/** A dragged rectangle on the canvas. @typedef {{ left: number, right: number, top: number, bottom: number }} Box */

/**
 * @typedef {object} Actions
 * @property {() => Frame} frame where things lie at present
 * @property {(step: number | undefined) => void} hover over a step; over none
 * @property {(box: Box | undefined) => void} drag a box that grows; let go
 * @property {(from: number, to: number, range?: { low: number, high: number }) => void} zoomTo steps and, where the box is high, values
 * @property {(steps: number) => void} move the view
 * @property {(factor: number, around: number) => void} zoom under 1: nearer; the step that stays where it is
 * @property {() => void} reset
 */

/** Less than this is a click with an unsteady hand. */
const leastDrag = 6;
/** A box flatter than this goes over the whole height, a narrower one over the whole width. */
const flat = 40;
const narrow = 20;

/**
 * @param {HTMLElement} chart
 * @param {Actions} actions
 */
export function watchPointer(chart, actions) {
  /** @type {{ start: Place, end: Place, isMove: boolean } | undefined} */
  let dragged;
  /** @param {MouseEvent} event @returns {Place} */
  const placeOf = (event) => {
    const { left, top } = chart.getBoundingClientRect();
    return { x: event.clientX - left - chart.clientLeft, y: event.clientY - top - chart.clientTop };
  };
  chart.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    chart.setPointerCapture(event.pointerId);
    const place = placeOf(event);
    dragged = { start: place, end: place, isMove: event.shiftKey };
  });
  chart.addEventListener('pointermove', (event) => {
    const frame = actions.frame();
    const place = placeOf(event);
    if (!dragged) return actions.hover(frame.step(place.x));
    if (dragged.isMove) actions.move(frame.step(dragged.end.x) - frame.step(place.x));
    dragged.end = place;
    if (!dragged.isMove && isFar(dragged)) actions.drag(boxOf(frame, dragged));
  });
  chart.addEventListener('pointerup', () => {
    if (!dragged) return;
    const frame = actions.frame();
    const done = dragged;
    dragged = undefined;
    actions.drag(undefined);
    if (done.isMove || !isFar(done)) return;
    const box = boxOf(frame, done);
    const isHigh = box.bottom - box.top < frame.bottom - frame.top;
    const range = isHigh ? { low: frame.value(box.bottom), high: frame.value(box.top) } : undefined;
    actions.zoomTo(frame.step(box.left), frame.step(box.right), range);
  });
  chart.addEventListener('pointercancel', () => {
    dragged = undefined;
    actions.drag(undefined);
  });
  chart.addEventListener('pointerleave', () => actions.hover(undefined));
  chart.addEventListener('dblclick', actions.reset);
  chart.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const frame = actions.frame();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        return actions.move(frame.step(event.deltaX) - frame.step(0));
      }
      const turn = Math.min(Math.max(event.deltaY, -240), 240);
      actions.zoom(Math.exp(turn * 0.002), frame.step(placeOf(event).x));
    },
    { passive: false },
  );
}

/** @param {{ start: Place, end: Place }} dragged */
const isFar = ({ start, end }) => Math.hypot(end.x - start.x, end.y - start.y) >= leastDrag;

/**
 * @param {Frame} frame
 * @param {{ start: Place, end: Place }} dragged
 * @returns {Box}
 */
function boxOf({ left, right, top, bottom }, { start, end }) {
  const isFlat = Math.abs(end.y - start.y) < flat;
  const isNarrow = !isFlat && Math.abs(end.x - start.x) < narrow;
  /** @param {number} value @param {number} low @param {number} high */
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  return {
    left: isNarrow ? left : clamp(Math.min(start.x, end.x), left, right),
    right: isNarrow ? right : clamp(Math.max(start.x, end.x), left, right),
    top: isFlat ? top : clamp(Math.min(start.y, end.y), top, bottom),
    bottom: isFlat ? bottom : clamp(Math.max(start.y, end.y), top, bottom),
  };
}
