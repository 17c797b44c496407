// Makes the plot's axes for uPlot: their ends, and the marks, which are those of the SVG figures (../scale.ts).
import type uPlot from 'uplot';
import { formatter, linearMarks, logMarks, marksOn, ticks } from '../scale.ts';
import { colorOf } from './elements.ts';
import type { Picture } from './page-model.ts';

const font = '12px system-ui';

export function axesOf({ isLog, axis }: Picture, size: { width: number; height: number }): uPlot.Axis[] {
  const common: uPlot.Axis = {
    font,
    labelFont: font,
    stroke: () => colorOf('quiet'),
    grid: { stroke: () => colorOf('grid'), width: 1 },
    ticks: { show: false },
    border: { show: true, stroke: () => colorOf('axis'), width: 1 },
  };
  const marksOf = (low: number, high: number) => {
    const count = Math.max(2, size.height / 70);
    return isLog ? logMarks(Math.log10(low), Math.log10(high), count) : linearMarks(low, high, count);
  };
  return [
    {
      ...common,
      label: axis.label,
      labelSize: 24,
      size: 26,
      gap: 8,
      splits: (_, __, from, to) => [...marksOn(axis, ticks(from, to, Math.max(2, size.width / 110)))],
      values: (_, marks) => marks.map(formatter(marks)),
    },
    {
      ...common,
      gap: 9,
      splits: (_, __, low, high) => [...marksOf(low, high).ticks],
      // On a logarithmic axis uPlot would leave out the text and the grid line of some marks.
      filter: (_, marks) => marks,
      grid: { ...common.grid, filter: (_, marks) => marks },
      values: ({ scales }, marks) => marks.map(marksOf(scales.y!.min ?? 0, scales.y!.max ?? 1).format),
      size: ({ ctx }, texts) => {
        // uPlot remembers the context's settings: it must get them back.
        ctx.save();
        ctx.font = font;
        const widths = (texts ?? []).map((text) => ctx.measureText(text).width);
        ctx.restore();
        return Math.ceil(Math.max(30, ...widths)) + 20;
      },
    },
  ];
}

/** Ends of the vertical axis: the reader's, or with a margin those of the values in view. */
export function rangeOf(
  { view: { range }, isLog }: Picture,
  least: number | null,
  largest: number | null,
): [low: number, high: number] {
  if (range) return [range.low, range.high];
  if (least === null || largest === null || least > largest) return isLog ? [0.1, 1] : [0, 1];
  if (isLog) {
    // Two values may be almost equal at one step, which should not press the others onto one line.
    const low = Math.max(least, largest / 1e6);
    const room = (largest / low) ** 0.04 * (largest === low ? 1.5 : 1);
    return [low / room, largest * room];
  }
  const room = (largest - least) * 0.04 || Math.abs(largest) / 2 || 1;
  return [least - room, largest + room];
}

/** Draws a line at zero if there are values on both sides of it. */
export function drawZero({ ctx, bbox, scales, valToPos }: uPlot): void {
  const { min = 0, max = 0, distr } = scales.y!;
  if (min >= 0 || max <= 0 || distr === 3) return;
  ctx.save();
  ctx.fillStyle = colorOf('axis');
  ctx.fillRect(bbox.left, Math.round(valToPos(0, 'y', true)), bbox.width, 1);
  ctx.restore();
}
