// The loss plot of a run, alone or over a reference.
import type { Reference } from '../compare/reference.ts';
import type { RunRecord } from '../runs/reader.ts';
import { type PlotLine, renderSvg } from './svg.ts';

// Told apart in print by dashes and rings, on a screen by two colours that colour-blind readers can tell apart.
const ours = '#0072b2';
const theirs = '#d55e00';

/** SVG of training and validation loss. */
export function lossPlot(
  name: string,
  { series }: Pick<RunRecord, 'series'>,
  reference: Reference | undefined,
): string {
  const lastStep = series.train.at(-1)?.[0] ?? 0;
  const lines: PlotLine[] = [];
  if (reference) {
    const upTo = (points: readonly (readonly [number, number])[]) => points.filter(([step]) => step <= lastStep + 1);
    lines.push({
      label: `${reference.name}, train`,
      points: upTo(reference.series.train),
      color: theirs,
      style: 'solid',
    });
    lines.push({
      label: `${reference.name}, validation`,
      points: upTo(reference.series.val),
      color: theirs,
      style: 'rings',
    });
  }
  lines.push({ label: `${name}, train`, points: series.train, color: ours, style: reference ? 'dashed' : 'solid' });
  lines.push({ label: `${name}, validation`, points: series.val, color: ours, style: 'dots' });
  const source = reference
    ? `reference: ${reference.source.program} ${reference.source.version}, ${reference.source.precision}, ${reference.source.hardware}`
    : 'gpt2.ts';
  return renderSvg({
    title: reference ? `${name} over ${reference.name}` : name,
    xLabel: 'step',
    yLabel: 'loss (nats per token)',
    lines,
    source,
  });
}
