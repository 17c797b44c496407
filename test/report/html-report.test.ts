// The HTML report as a document: its content, and that no text in it becomes markup. Its behaviour: browser.slow.test.ts.
import { createHash } from 'node:crypto';
import { Script } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { compareSeries } from '../../src/report/compare/compare.ts';
import type { NamedRun } from '../../src/report/compare/pairs.ts';
import { readReference } from '../../src/report/compare/reference.ts';
import { htmlReport, livePage } from '../../src/report/html-report.ts';
import { unpack } from '../../src/report/points.ts';
import { reportData } from '../../src/report/report-data.ts';
import { configuration, runEvent, trainEvent } from '../runs/run-log.ts';

const d6 = readReference('llmc-d6-fp32-b4-t64');
const run = (name: string, series = d6.series): NamedRun => ({
  name,
  folder: `runs/${name}`,
  series,
  configuration,
  events: [runEvent()],
});

/** The texts of all script elements, as a browser reads them. */
const scripts = (html: string) => [...html.matchAll(/<script(?<attributes>[^>]*)>(?<text>[\s\S]*?)<\/script/gi)];
const dataOf = (html: string) => JSON.parse(scripts(html)[0]!.groups!.text!);

describe('escaping', () => {
  const hostile = '</script><script>alert(1)</script><!--<script>"&\'$& $1 {{data}}';

  it('a name neither ends the data nor becomes markup', () => {
    const html = htmlReport(reportData([run(hostile)], [{ ...d6, name: hostile }]));
    expect(scripts(html)).toHaveLength(2);
    expect(html).not.toContain('<!--');
    expect(html).not.toContain('<script>alert');
    expect(dataOf(html).curves.map(({ name }: { name: string }) => name)).toEqual([hostile, hostile]);
    expect(html.match(/<title>(.*)<\/title>/)?.[1]).not.toMatch(/[<>"]/);
  });

  it('neither does a configuration or the name of a device', () => {
    const start = { ...runEvent(), device: hostile };
    const html = htmlReport(
      reportData([{ ...run('a'), events: [start], configuration: { ...configuration, model: hostile } }]),
    );
    expect(scripts(html)).toHaveLength(2);
    expect(JSON.stringify(dataOf(html))).toContain(JSON.stringify(hostile).slice(1, -1));
  });
});

describe('the document', () => {
  const html = htmlReport(reportData([run('mine')], [d6]));

  it('allows its own script and style by their hashes, and nothing else', () => {
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1];
    const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    const style = /<style>([\s\S]*?)<\/style>/.exec(html)![1]!;
    expect(policy).toBe(
      `default-src 'none'; script-src ${hash(scripts(html)[1]!.groups!.text!)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; form-action 'none'`,
    );
    expect(html).not.toMatch(/\bstyle="|\bon[a-z]+="/);
  });

  it('loads nothing from outside', () => {
    expect(html.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(
      /https?:|@import|url\(|\ssrc=|href="(?!data:,)/,
    );
  });

  it('has a script without imports', () => {
    expect(() => new Script(scripts(html)[1]!.groups!.text!)).not.toThrow();
  });

  it("has uPlot's licence in its script and its style", () => {
    expect(html.match(/Permission is hereby granted/g)).toHaveLength(2);
  });
});

describe.each(['run', 'kernels'] as const)('the live page of %s', (shows) => {
  const { html, policy } = livePage(shows);

  it('is one document that connects to its own server only', () => {
    expect(html).toContain(`content="${policy}"`);
    expect(policy).toMatch(
      /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:; connect-src 'self'; /,
    );
    expect(html.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(
      /https?:|@import|url\(|\ssrc=|href="(?!data:,)|\bstyle="|\bon[a-z]+="/,
    );
    expect(() => new Script(scripts(html)[0]!.groups!.text!)).not.toThrow();
  });
});

describe('reportData', () => {
  it('curves with their points, the baseline beneath, its limits, tables and sources', () => {
    const compared = { run: run('mine'), baseline: d6, comparison: compareSeries(d6.series, d6) };
    const data = reportData([compared.run], [d6], { compared: [compared] });
    expect(data).toMatchObject({ title: `mine vs ${d6.name}`, baseline: 0, last: 400, tokensPerStep: 256 });
    expect(data.curves.map(({ name }) => name)).toEqual([d6.name, 'mine']);
    const { steps, values } = unpack(data.curves[1]!.series.val);
    expect(Array.from(steps, (step, index) => [step, values[index]])).toEqual(d6.series.val);
    expect(data.curves[0]!.limits.val).toEqual(d6.limits.filter(({ series }) => series === 'val'));
    expect(data.curves[1]!.limits.val).toEqual([]);
    expect(data.tables.map(({ title }) => title)).toEqual([`mine vs ${d6.name}`, 'Configuration']);
    expect(data.sources).toEqual([
      'gpt2.ts 0, fp32, CPU (portable)',
      'reference: llm.c f1e2ace, fp32, TF32 off, one H100 80GB',
    ]);
  });

  it('uneven steps and values that are not finite survive', () => {
    const train = [
      [0, 1],
      [3, Number.NaN],
      [4, Number.POSITIVE_INFINITY],
    ] as const;
    const { curves } = reportData([run('a', { ...d6.series, train: train as never })]);
    const packed = JSON.parse(JSON.stringify(curves[0]!.series.train));
    const { steps, values } = unpack(packed);
    expect(Array.from(steps, (step, index) => [step, values[index]])).toEqual(train);
  });

  it('several runs without a reference are laid over the first; one run over nothing', () => {
    expect(reportData([run('a'), run('b')])).toMatchObject({ baseline: 0, title: 'b vs a' });
    expect(reportData([run('a')])).toMatchObject({ baseline: -1, title: 'a', tables: [{ title: 'a' }, {}] });
  });

  it('one run brings its state, figures and log; several bring their throughput only', () => {
    const events = [runEvent(), trainEvent(0, 10), trainEvent(1, 9)];
    const one = { ...run('a'), events };
    const { run: figures, curves } = reportData([one], [d6]);
    expect(figures).toMatchObject({
      end: { state: 'unfinished' },
      samples: [],
      lines: [/^started/, /^step 0/, /^step 1/].map((line) => expect.stringMatching(line)),
    });
    expect(curves.map(({ series }) => series.tokensPerSecond?.values)).toEqual([undefined, [10, 10]]);
    const html = htmlReport(reportData([one], [d6]));
    expect(html).toContain('id="log-tail"');
    expect(html).not.toContain('id="sample"');
    for (const several of [reportData([one, run('b')]), reportData([one], [run('b')])]) {
      expect(several.run).toBeUndefined();
      expect(htmlReport(several)).not.toMatch(/id="(?:state|tiles|log-tail)"/);
    }
  });

  it('a path in the configuration is shortened to its last part', () => {
    const hellaswag = 'data/hellaswag/hellaswag_val.bin';
    const { tables } = reportData([{ ...run('a'), configuration: { ...configuration, hellaswag } }]);
    expect(tables.at(-1)!.rows).toContainEqual(['hellaswag', 'hellaswag_val.bin']);
  });

  it('a tolerance is the band of every series', () => {
    const { curves } = reportData([run('a')], [d6], { tolerance: 0.5 });
    expect(curves[0]!.limits.norm).toMatchObject([{ from: 0, within: 0.5 }]);
  });
});
