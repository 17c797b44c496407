// Adds gestures that uPlot lacks: the wheel zooms and moves the view, a drag with Shift moves it, a finger drags a zoom box. uPlot 1.6
// listens only to mouse events, so touch events are passed on as mouse events.
import type uPlot from 'uplot';
import type { Scale } from '../scale.ts';

export interface Actions {
  readonly hover: (step: number | undefined) => void;
  /** Called when a zoom box has been dragged. `range`: its vertical extent; undefined if the box covers the plot's whole height. */
  readonly zoomTo: (from: number, to: number, range?: Scale) => void;
  readonly move: (steps: number) => void;
  /** @param factor of the view's width; below 1 zooms in @param around the step that stays at its place on the screen */
  readonly zoom: (factor: number, around: number) => void;
  readonly reset: () => void;
}

export function watchGestures(plot: uPlot, { move, zoom }: Pick<Actions, 'move' | 'zoom'>): void {
  const { over } = plot;
  const stepsIn = (pixels: number) => plot.posToVal(pixels, 'x') - plot.posToVal(0, 'x');
  over.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return move(stepsIn(event.deltaX));
      const turn = Math.min(Math.max(event.deltaY, -240), 240);
      zoom(Math.exp(turn * 0.002), plot.posToVal(event.clientX - over.getBoundingClientRect().left, 'x'));
    },
    { passive: false },
  );
  let movedFrom: number | undefined;
  const send = (name: string, event: PointerEvent) => over.dispatchEvent(new MouseEvent(name, event));
  const isFinger = ({ pointerType }: PointerEvent) => pointerType === 'touch';
  over.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    if (isFinger(event)) send('mousedown', event);
    else if (event.shiftKey) movedFrom = event.clientX;
    else return;
    over.setPointerCapture(event.pointerId);
  });
  over.addEventListener('pointermove', (event) => {
    if (isFinger(event)) send('mousemove', event);
    if (movedFrom === undefined) return;
    move(stepsIn(movedFrom - event.clientX));
    movedFrom = event.clientX;
  });
  over.addEventListener('pointerup', (event) => {
    movedFrom = undefined;
    if (isFinger(event)) send('mouseup', event);
  });
  over.addEventListener('pointercancel', (event) => {
    movedFrom = undefined;
    if (!isFinger(event)) return;
    // The browser has taken over the touch to scroll the page: drop the zoom box.
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    send('mouseup', event);
  });
}
