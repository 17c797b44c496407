// A loss plot as SVG, fit for print: run as a solid line, reference dashed, validation as marks; axes, legend, source.

export interface PlotLine {
  readonly label: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly color: string;
  readonly style: 'solid' | 'dashed' | 'dots' | 'rings';
}

export interface Plot {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly lines: readonly PlotLine[];
  /** Set small below the plot: where the numbers come from. */
  readonly source: string;
}

const width = 800;
const height = 500;
const area = { left: 64, right: 24, top: 44, bottom: 76 };

const escapeText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Round numbers from `low` to `high`, about `count` of them: steps of 1, 2 or 5 times a power of ten. */
export function ticks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toFixed(digits)));
}

/** The plot as a whole SVG document. Points that are not finite are left out. */
export function renderSvg(plot: Plot): string {
  const lines = plot.lines.map((line) => ({ ...line, points: line.points.filter(([, y]) => Number.isFinite(y)) }));
  const all = lines.flatMap(({ points }) => points);
  const [xLow, xHigh] = range(
    all.map(([x]) => x),
    0,
  );
  const [yLow, yHigh] = range(
    all.map(([, y]) => y),
    0.04,
  );
  const x = (value: number) => area.left + ((value - xLow) / (xHigh - xLow)) * (width - area.left - area.right);
  const y = (value: number) =>
    height - area.bottom - ((value - yLow) / (yHigh - yLow)) * (height - area.top - area.bottom);
  const at = (value: number) => value.toFixed(2);
  const bottom = height - area.bottom;
  const right = width - area.right;

  const grid = [
    ...ticks(xLow, xHigh, 8).map((tick) => {
      const place = at(x(tick));
      return `<path d="M${place} ${bottom}v5" stroke="#333"/><text x="${place}" y="${bottom + 20}" text-anchor="middle">${tick}</text>`;
    }),
    ...ticks(yLow, yHigh, 7).map((tick) => {
      const place = y(tick);
      return `<path d="M${area.left} ${at(place)}H${right}" stroke="#ddd"/><text x="${area.left - 8}" y="${at(place + 4)}" text-anchor="end">${tick}</text>`;
    }),
  ];
  const drawn = lines.map((line) => {
    const points = line.points.map(([px, py]) => [at(x(px)), at(y(py))] as const);
    if (line.style === 'dots')
      return points.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3.5" fill="${line.color}"/>`).join('');
    if (line.style === 'rings') {
      return points
        .map(
          ([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="6" fill="none" stroke="${line.color}" stroke-width="1.5"/>`,
        )
        .join('');
    }
    const dash = line.style === 'dashed' ? ' stroke-dasharray="7 4"' : '';
    const path = points.map(([px, py], index) => `${index === 0 ? 'M' : 'L'}${px} ${py}`).join('');
    return `<path d="${path}" fill="none" stroke="${line.color}" stroke-width="1.6" stroke-linejoin="round"${dash}/>`;
  });
  const legend = lines.map((line, index) => legendEntry(line, right - 250, area.top + 18 + index * 20));

  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222">
<rect width="${width}" height="${height}" fill="#fff"/>
<text x="${area.left}" y="26" font-size="16" font-weight="bold">${escapeText(plot.title)}</text>
${grid.join('\n')}
<path d="M${area.left} ${area.top}V${bottom}H${right}" fill="none" stroke="#333"/>
<text x="${(area.left + right) / 2}" y="${bottom + 42}" text-anchor="middle">${escapeText(plot.xLabel)}</text>
<text transform="translate(18 ${(area.top + bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeText(plot.yLabel)}</text>
${drawn.join('\n')}
${legend.join('\n')}
<text x="${area.left}" y="${height - 10}" font-size="11" fill="#666">${escapeText(plot.source)}</text>
</svg>
`;
}

function legendEntry({ label, color, style }: PlotLine, left: number, top: number): string {
  const dash = style === 'dashed' ? ' stroke-dasharray="7 4"' : '';
  const mark = {
    solid: `<path d="M${left} ${top - 4}h28" stroke="${color}" stroke-width="2"/>`,
    dashed: `<path d="M${left} ${top - 4}h28" stroke="${color}" stroke-width="2"${dash}/>`,
    dots: `<circle cx="${left + 14}" cy="${top - 4}" r="3.5" fill="${color}"/>`,
    rings: `<circle cx="${left + 14}" cy="${top - 4}" r="6" fill="none" stroke="${color}" stroke-width="1.5"/>`,
  }[style];
  return `${mark}<text x="${left + 36}" y="${top}">${escapeText(label)}</text>`;
}

/** Least and largest value, with a margin; never empty. */
function range(values: readonly number[], margin: number): [number, number] {
  const low = values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const high = values.reduce((largest, value) => Math.max(largest, value), Number.NEGATIVE_INFINITY);
  if (low > high) return [0, 1];
  const room = high === low ? 1 : (high - low) * margin;
  return [low - (high === low ? 0 : room), high + (high === low ? 1 : room)];
}
