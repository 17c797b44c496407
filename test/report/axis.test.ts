// Where curves lie on a figure's axis: over steps, tokens and seconds, of resumed runs and references too.
import { describe, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { unitOf } from '../../src/report/axis.ts';
import { readReference } from '../../src/report/compare/reference.ts';
import { lossPlot } from '../../src/report/loss-plot.ts';
import { unpack } from '../../src/report/points.ts';
import { reportData } from '../../src/report/report-data.ts';
import { type PlottedRun, placeCurves } from '../../src/report/shown-curves.ts';
import { terminalPlot } from '../../src/report/terminal-plot.ts';
import { pairs, RunCurves } from '../../src/runs/curves.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { configuration, runEvent, trainEvent } from '../runs/run-log.ts';

const d6 = readReference('llmc-d6-fp32-b4-t64');

function runOf(name: string, events: readonly RunEvent[]): PlottedRun {
  const curves = new RunCurves();
  for (const event of events) curves.take(event);
  const { train, val, norm, lr } = curves;
  return {
    name,
    configuration,
    events,
    series: { train: pairs(train), val: pairs(val), norm: pairs(norm), lr: pairs(lr) },
  };
}

const step = (step: number, ms: number) => ({ ...trainEvent(step, 10 - step), ms });
const val = (step: number) => ({ event: 'val', step, loss: 20 - step }) as const;

/** Two steps of 1000 tokens, killed after a third; then resumed with 4000 tokens a step. */
const resumed = runOf('resumed', [
  runEvent({ totalBatch: 1000 }),
  val(0),
  ...[step(0, 3000), step(1, 1000)],
  val(2),
  step(2, 70_000),
  { ...runEvent({ totalBatch: 4000 }), resumedFrom: 2 },
  ...[step(2, 2000), step(3, 2500)],
  val(4),
]);
const short = runOf('short', [runEvent({ totalBatch: 500 }), val(0), step(0, 4000), val(1)]);

const placesOf = (over: 'steps' | 'tokens' | 'seconds', series: 'train' | 'val') => {
  const [curve] = placeCurves([resumed], [], { over }).curves;
  return curve!.place(curve!.plotted.series[series]).map(([at]) => at);
};

describe('a loss lies at what the steps before it took, on the weights of which it was measured', () => {
  it.each([
    ['steps', [0, 1, 2, 3], [0, 2, 4]],
    // In thousands.
    ['tokens', [0, 1, 2, 6], [0, 2, 10]],
    ['seconds', [0, 3, 4, 6], [0, 4, 8.5]],
  ] as const)('over %s', (over, train, validations) => {
    expect(placesOf(over, 'train')).toEqual(train);
    expect(placesOf(over, 'val')).toEqual(validations);
  });

  it("a reference's tokens follow from its batch; it has no seconds", () => {
    const { axis, last, curves } = placeCurves([resumed], [d6], { over: 'tokens' });
    expect(curves[0]!.place(d6.series.val).at(-1)).toEqual([102.4, d6.series.val.at(-1)![1]]);
    expect(axis.unit).toBe('thousand tokens');
    expect(last).toBe(102.4);
    expect(() => lossPlot([resumed], [d6], { over: 'seconds' })).toThrow(
      new Gpt2Error(
        `${d6.name} does not record the seconds before step 400: take another --over, or a run as --reference`,
      ),
    );
    expect(() => placeCurves([resumed], [{ ...d6, configuration: {} }], { over: 'tokens' })).toThrow(
      /the tokens before/,
    );
  });

  it.each([
    ['its first steps', [{ ...runEvent(), resumedFrom: 3 }, step(3, 1)]],
    ['one step', [runEvent(), ...[0, 2, 3].map((at) => step(at, 1))]],
  ] as [string, RunEvent[]][])('a log without %s is refused', (_, events) => {
    const cut = runOf('cut', events);
    expect(() => placeCurves([cut], [], { over: 'seconds' })).toThrow('cut does not record the seconds before step 3');
    expect(placeCurves([cut], [], {}).last).toBe(3);
  });
});

it.each([
  ['tokens', 4999, 'tokens'],
  ['tokens', 5e6, 'million tokens'],
  ['tokens', 6e11, 'billion tokens'],
  ['seconds', 0.2, 'seconds of training'],
  ['seconds', 300, 'minutes of training'],
  ['seconds', 5 * 3600, 'hours of training'],
  ['steps', 1e9, undefined],
] as const)('the unit of %s up to %d', (over, last, name) => {
  expect(unitOf(over, last)[1]).toBe(name);
});

describe.each(['tokens', 'seconds'] as const)('figures over %s', (over) => {
  const label = { tokens: 'thousand tokens', seconds: 'seconds of training' }[over];

  it('the SVG: every curve whole, whatever is named first, and nothing that is by step', () => {
    const [first, both] = [
      lossPlot([short], [resumed], { over }),
      lossPlot([resumed, short], [], { over, tolerance: 0.1 }),
    ];
    for (const svg of [first, both]) {
      expect(svg).toContain(`>${label}<`);
      expect(svg).toContain(over === 'tokens' ? '>10<' : '>8<');
      expect(svg).not.toMatch(/difference|limit|step/);
      // Three validations, two, and one in the legend of each.
      expect(svg.match(/<circle/g)).toHaveLength(7);
    }
  });

  it('the terminal', () => {
    const plot = terminalPlot([short], [resumed], { width: 80, over });
    expect(plot).toContain(label);
    expect(plot).not.toContain('step');
  });

  it('the data of the report, throughput too', () => {
    const { title, axis, baseline, last, curves } = reportData([short, resumed], [], { over });
    expect({ title, axis, baseline }).toEqual({ title: 'short, resumed', axis: { label, unit: label }, baseline: -1 });
    expect(last).toBe(over === 'tokens' ? 10 : 8.5);
    for (const series of ['train', 'norm', 'lr', 'tokensPerSecond'] as const) {
      expect([...unpack(curves[1]!.series[series]!).steps]).toEqual(placesOf(over, 'train'));
    }
    expect([...unpack(curves[1]!.series.val).steps]).toEqual(placesOf(over, 'val'));
  });
});

it('over steps marks are whole, over seconds they need not be', () => {
  const twice = runOf('twice', [runEvent(), step(0, 1000), step(1, 1), step(2, 1)]);
  expect(lossPlot([twice])).not.toContain('>0.5<');
  expect(lossPlot([twice], [], { over: 'seconds' })).toContain('>0.4<');
});
