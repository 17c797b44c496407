// Draws a step of all ranks as an SVG document: for each rank one lane each for the model, AdamW and collectives, over one time
// axis. Copies take a few microseconds and are only in the trace.
import { linearScale } from '../../src/report/scale.ts';
import { escapeText } from '../../src/report/svg.ts';
import { type Kernel, type Kind, kindOf, type Span } from './steps.ts';

const width = 1200;
const left = 140;
const right = width - 24;
const legendTop = 56;
const lane = { height: 26, gap: 4 };
const rankGap = 22;
const lanes = ['model', 'AdamW', 'collectives'] as const;
const ink = { text: '#1a1a1a', axis: '#333', grid: '#e2e2e2', background: '#f6f6f6' };

interface Sort {
  readonly label: string;
  readonly lane: (typeof lanes)[number];
  readonly color: string;
}

const products: Sort = { label: 'matrix products', lane: 'model', color: '#4477aa' };
const attention: Sort = { label: 'attention', lane: 'model', color: '#66ccee' };
const rest: Sort = { label: 'rest of the model', lane: 'model', color: '#999999' };
const sortOfKind: Readonly<Record<Exclude<Kind, 'model' | 'copies'>, Sort>> = {
  AdamW: { label: 'AdamW', lane: 'AdamW', color: '#228833' },
  'peer copies': { label: 'copies between GPUs', lane: 'collectives', color: '#ee6677' },
  'reduce-scatter': { label: 'reduce-scatter', lane: 'collectives', color: '#ee6677' },
  'all-gather': { label: 'all-gather', lane: 'collectives', color: '#ccbb44' },
  'all-reduce': { label: 'all-reduce', lane: 'collectives', color: '#aa3377' },
  'other NCCL': { label: 'other NCCL', lane: 'collectives', color: '#bb5500' },
};
const sorts = [products, attention, rest, ...Object.values(sortOfKind)];

/** The sort of a kernel, by its file (matmul, attention_forward) or, for a kernel in a header, its name. */
function sortOf(kernel: Kernel): Sort | undefined {
  const kind = kindOf(kernel);
  if (kind === 'copies') return undefined;
  if (kind !== 'model') return sortOfKind[kind];
  if (/gpt2::matmul|::(product|plain|interleaved)_kernel\b/.test(kernel.name)) return products;
  return /gpt2::attention|::backward::/.test(kernel.name) ? attention : rest;
}

/** The SVG of each rank's kernels in its step. */
export function stepChart(
  title: string,
  ranks: readonly { readonly kernels: readonly Kernel[]; readonly step: Span }[],
): string {
  const origin = Math.min(...ranks.map(({ step }) => step.start));
  const longest = Math.max(...ranks.map(({ step }) => step.end)) - origin;
  const scale = linearScale([0, longest], { count: 12, margin: 0 });
  const x = (time: number) => round(left + scale.place(time - origin) * (right - left));
  const rankHeight = lanes.length * (lane.height + lane.gap) - lane.gap;
  const top = legendTop + 26;
  const bottom = top + ranks.length * (rankHeight + rankGap) - rankGap;
  const height = bottom + 52;
  const present = sorts.filter((sort) =>
    ranks.some(({ kernels }) => kernels.some((kernel) => sortOf(kernel) === sort)),
  );

  const drawRank = ({ kernels, step }: (typeof ranks)[number], rank: number) => {
    const rankTop = top + rank * (rankHeight + rankGap);
    return [
      `<text x="16" y="${rankTop + rankHeight / 2 + 4}" font-weight="bold">rank ${rank}</text>`,
      ...lanes.map((name, index) => {
        const y = rankTop + index * (lane.height + lane.gap);
        return [
          `<text x="${left - 8}" y="${y + lane.height / 2 + 4}" text-anchor="end" font-size="11">${name}</text>`,
          `<path d="${box(x(step.start), x(step.end), y)}" fill="${ink.background}"/>`,
          ...present
            .filter((sort) => sort.lane === name)
            .map((sort) => {
              const boxes = kernels.filter((kernel) => sortOf(kernel) === sort);
              return `<path d="${boxes.map(({ start, end }) => box(x(start), x(end), y)).join('')}" fill="${sort.color}"/>`;
            }),
        ].join('\n');
      }),
    ].join('\n');
  };

  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13" fill="${ink.text}">
<title>${escapeText(title)}</title>
<rect width="${width}" height="${height}" fill="#fff"/>
<text x="16" y="28" font-size="16" font-weight="bold">${escapeText(title)}</text>
${present
  .map(({ label, color }, index) => {
    const start = 16 + index * 145;
    return `<rect x="${start}" y="${legendTop - 11}" width="14" height="14" fill="${color}"/><text x="${start + 20}" y="${legendTop + 1}">${label}</text>`;
  })
  .join('\n')}
${ranks.map(drawRank).join('\n')}
${scale.ticks
  .map((tick) => {
    const at = x(origin + tick);
    return `<path d="M${at} ${top}V${bottom}" stroke="${ink.axis}" stroke-opacity="0.15"/><path d="M${at} ${bottom + 4}v5" stroke="${ink.axis}"/><text x="${at}" y="${bottom + 23}" text-anchor="middle">${scale.format(tick)}</text>`;
  })
  .join('\n')}
<path d="M${left} ${bottom + 4}H${right}" stroke="${ink.axis}"/>
<text x="${(left + right) / 2}" y="${bottom + 43}" text-anchor="middle">ms since the step began</text>
</svg>
`;
}

const box = (start: number, end: number, y: number): string => `M${start} ${y}H${end}v${lane.height}H${start}z`;

const round = (value: number): number => Math.round(value * 100) / 100;
