// A chart: the plot library uPlot, which draws a picture (picture.ts), a zoom box, and a cursor that jumps from value to value.
// gestures.ts adds gestures that uPlot lacks.
import uPlot from 'uplot';
import { type Points, valueNear } from '../points.ts';
import { colorOf } from './elements.ts';
import { type Actions, watchGestures } from './gestures.ts';
import { adaptLines, alignedData, axesOf, dottedPoints, drawZero, endsOf, type Picture, seriesOf } from './picture.ts';

const noBox = { left: 0, top: 0, width: 0, height: 0 };

export class Chart {
  readonly #root: HTMLElement;
  readonly #actions: Actions;
  #plot: uPlot | undefined;
  #picture!: Picture;
  /** The points and settings with which the current uPlot was made. */
  #points: readonly (Points | undefined)[] = [];
  #settings = '';
  /** True while this class changes the view: uPlot then reports cursor moves that the reader of the page did not make. */
  #isShowing = false;

  constructor(root: HTMLElement, actions: Actions) {
    this.#root = root;
    this.#actions = actions;
  }

  show(picture: Picture): void {
    this.#picture = picture;
    const { lines, band, view, ...others } = picture;
    const size = { width: this.#root.clientWidth, height: this.#root.clientHeight };
    const points = [band, ...lines.flatMap((line) => [line.points, line.smoothed])];
    const drawn = lines.map(({ curve, series, smoothed }) => [curve, series, !!smoothed]);
    const settings = JSON.stringify([others, size, !!band, drawn]);
    this.#isShowing = true;
    if (settings !== this.#settings || !this.#plot) {
      this.#plot?.destroy();
      this.#plot = new uPlot({ ...this.#options(size), ...size }, alignedData(picture), this.#root);
      watchGestures(this.#plot, this.#actions);
    } else if (points.some((one, index) => one !== this.#points[index])) {
      this.#plot.setData(alignedData(picture), false);
    }
    [this.#points, this.#settings] = [points, settings];
    this.#plot.batch((plot: uPlot) => plot.setScale('x', { min: view.from, max: view.to }));
    this.#isShowing = false;
    this.showCursor(view.cursor);
  }

  /** Moves the cursor to a step; hides it if the step is out of view. */
  showCursor(step: number | undefined): void {
    const { from, to } = this.#picture.view;
    const isSeen = step !== undefined && step >= from && step <= to;
    this.#plot?.setCursor(isSeen ? { left: this.#plot.valToPos(step, 'x'), top: 0 } : { left: -10, top: -10 }, false);
  }

  /** Pixel position of a step, for a tooltip at the step, and of the plot's right end. */
  placeOf(step: number): { x: number; right: number; top: number } {
    const { offsetLeft, offsetTop, clientWidth } = this.#plot!.over;
    return { x: offsetLeft + this.#plot!.valToPos(step, 'x'), right: offsetLeft + clientWidth, top: offsetTop };
  }

  get isDragging(): boolean {
    return (this.#plot?.select.width ?? 0) > 0;
  }

  /** The step nearest to `step` at which any curve has a value; with `further`, the step that is `further` such steps later. */
  stepNear(step: number, further = 0): number | undefined {
    const [steps] = this.#plot!.data;
    const place = this.#plot!.valToIdx(step) + further;
    return steps[Math.min(Math.max(place, 0), steps.length - 1)];
  }

  #options(size: { width: number; height: number }): Omit<uPlot.Options, 'width' | 'height'> {
    const picture = this.#picture;
    const hover = ({ cursor, data }: uPlot) => {
      if (!this.#isShowing) this.#actions.hover(cursor.idx == null ? undefined : data[0][cursor.idx]);
    };
    return {
      title: picture.label,
      legend: { show: false },
      padding: [36, 22, 0, 0],
      scales: {
        x: { time: false, range: () => [this.#picture.view.from, this.#picture.view.to] },
        y: {
          distr: picture.isLog ? 3 : 1,
          // On a logarithmic axis, draw values of zero or less at the lower end.
          clamp: (_, __, low) => low,
          range: (_, least, largest) => endsOf(this.#picture, least, largest),
        },
      },
      axes: axesOf(picture, size),
      series: seriesOf(picture),
      bands: picture.band && [{ series: [1, 2], fill: `${colorOf('band')}22` }],
      cursor: this.#cursor(),
      hooks: {
        drawClear: [(plot) => adaptLines(plot, this.#picture)],
        drawAxes: [drawZero],
        setCursor: [hover],
        setSelect: [(plot) => this.#zoomToBox(plot)],
      },
    };
  }

  #cursor(): uPlot.Cursor {
    return {
      y: false,
      points: { size: 8, width: 0 },
      // The cursor jumps to the nearest step with a value. While the mouse drags a zoom box (button 1), the cursor moves freely.
      move: (plot, left, top) => {
        const isFree = left < 0 || plot.cursor.event?.buttons === 1;
        const step = isFree ? undefined : plot.data[0][plot.posToIdx(left)];
        return [step === undefined ? left : Math.max(0, plot.valToPos(step, 'x')), top];
      },
      dataIdx: (plot, series, index) => {
        const points = dottedPoints(this.#picture)[series];
        const place = points && valueNear(points.steps, plot.data[0][index]!);
        // null hides the dot, but uPlot's types do not include null.
        return (place === undefined ? null : plot.valToIdx(points!.steps[place]!)) as number;
      },
      bind: {
        mousedown: (_, __, handle) => (event) => {
          if (event.button === 0 && !event.shiftKey) handle(event);
          return null;
        },
        dblclick: () => () => {
          this.#actions.reset();
          return null;
        },
      },
      // If the zoom box is less than `uni` pixels high (or wide), it selects the plot's whole height (or width).
      drag: { x: true, y: true, dist: 6, uni: 30, setScale: false },
    };
  }

  #zoomToBox(plot: uPlot): void {
    const { left, top, width, height } = plot.select;
    const isFlat = height >= plot.over.clientHeight;
    const [low, high] = [plot.posToVal(top + height, 'y'), plot.posToVal(top, 'y')];
    const [from, to] = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')];
    plot.setSelect(noBox, false);
    this.#actions.zoomTo(from, to, isFlat ? undefined : { low, high });
  }
}
