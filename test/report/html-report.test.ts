// The HTML report and the live pages as documents: no text in them becomes markup, and they load nothing. Their behaviour:
// browser.slow.test.ts.
import { createHash } from 'node:crypto';
import { Script } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { htmlReport, livePage } from '../../src/report/html-report.ts';
import { makeFigure } from '../../src/report/make-figure.ts';
import { configuration, runEvent, trainEvent } from '../runs/run-log.ts';
import { d6, runOf } from './runs-to-draw.ts';

/** The texts of all script elements, as a browser reads them. */
const scripts = (html: string) =>
  [...html.matchAll(/<script[^>]*>(?<text>[\s\S]*?)<\/script/gi)].map(({ groups }) => groups!.text!);
const report = htmlReport(makeFigure([runOf('mine')], [d6]));
const [run, kernels] = [livePage('run'), livePage('kernels')];

describe('escaping', () => {
  const hostile = '</script><script>alert(1)</script><!--<script>"&\'$& $1 {{data}}';

  it('a name neither ends the data nor becomes markup', () => {
    const html = htmlReport(makeFigure([runOf(hostile)], [{ ...d6, name: hostile }]));
    expect(scripts(html)).toHaveLength(2);
    expect(html).not.toContain('<!--');
    expect(html).not.toContain('<script>alert');
    const { curves } = JSON.parse(scripts(html)[0]!);
    expect(curves.map(({ name }: { name: string }) => name)).toEqual([hostile, hostile]);
    expect(html.match(/<title>(.*)<\/title>/)?.[1]).not.toMatch(/[<>"]/);
  });

  it('neither does a configuration or the name of a device', () => {
    const events = [{ ...runEvent(), device: hostile }];
    const html = htmlReport(
      makeFigure([runOf('a', d6.series, { events, configuration: { ...configuration, model: hostile } })]),
    );
    expect(scripts(html)).toHaveLength(2);
    const data = JSON.parse(scripts(html)[0]!);
    for (const part of [data.sources, data.tables]) {
      expect(JSON.stringify(part)).toContain(JSON.stringify(hostile).slice(1, -1));
    }
  });
});

it.each([
  ['the report', report, ''],
  ['the live page of a run', run.html, " connect-src 'self';"],
  ['the live page of kernels', kernels.html, " connect-src 'self';"],
])('%s allows its own script and style by their hashes, and loads nothing from outside', (_, html, connects) => {
  const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1];
  const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const style = /<style>([\s\S]*?)<\/style>/.exec(html)![1]!;
  const script = scripts(html).at(-1)!;
  expect(policy).toBe(
    `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:;${connects} base-uri 'none'; form-action 'none'`,
  );
  expect(html.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(
    /https?:|@import|url\(|\ssrc=|href="(?!data:,)|\bstyle="|\bon[a-z]+="/,
  );
  // It has no imports.
  expect(() => new Script(script)).not.toThrow();
});

it('a live page names the policy that it is to be sent with', () => {
  for (const { html, policy } of [run, kernels]) expect(html).toContain(`content="${policy}"`);
});

it("the report has uPlot's licence in its script and its style", () => {
  expect(report.match(/Permission is hereby granted/g)).toHaveLength(2);
});

it('one run brings its state, figures and log; several do not', () => {
  const one = runOf('a', d6.series, { events: [runEvent(), trainEvent(0, 10), trainEvent(1, 9)] });
  const html = htmlReport(makeFigure([one], [d6]));
  expect(html).toContain('id="log-tail"');
  expect(html).not.toContain('id="sample"');
  for (const several of [makeFigure([one, runOf('b')]), makeFigure([one], [runOf('b')])]) {
    expect(htmlReport(several)).not.toMatch(/id="(?:state|tiles|log-tail)"/);
  }
});
