// Makes the elements that depend on the report: buttons of series and curves, tables, sources. Every text is inserted as text, so that no
// name can become markup. viewer.ts decides the effect of a click.
import type { PlottedSeries, ReportData, ReportTable } from '../report-data.ts';
import { seriesLabels, seriesNames } from './model.ts';

/** The element of an id, which the page's markup has. */
export const byId = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;

const make = <K extends keyof HTMLElementTagNameMap>(name: K, text: string, className = ''): HTMLElementTagNameMap[K] =>
  Object.assign(document.createElement(name), { textContent: text, className });

export const seriesButtons = (choose: (series: PlottedSeries) => void): HTMLElement[] =>
  seriesNames.map((name, index) => {
    const { short, long } = seriesLabels[name];
    const button = Object.assign(make('button', short), { type: 'button', title: `${long} (${index + 1})` });
    button.dataset.series = name;
    button.addEventListener('click', () => choose(name));
    return button;
  });

/** A button for each curve, with a sample of its line. */
export const legendButtons = ({ curves, baseline }: ReportData, toggle: (curve: number) => void): HTMLElement[] =>
  curves.map(({ name, dash }, curve) => {
    const button = Object.assign(make('button', ''), { type: 'button', title: 'show or hide' });
    const sample = svgElement('svg', { width: 30, height: 8, 'aria-hidden': true });
    const width = curve === baseline ? 4.6 : 2;
    sample.append(
      svgElement('line', { x2: 30, y1: 4, y2: 4, 'stroke-width': width, 'stroke-dasharray': dash.join(' ') }),
    );
    button.append(sample, make('span', name));
    button.addEventListener('click', () => toggle(curve));
    return button;
  });

function svgElement(name: 'svg' | 'line', attributes: Readonly<Record<string, unknown>>): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

export const baselineOptions = (curves: ReportData['curves']): HTMLElement[] =>
  curves.map(({ name }, curve) => Object.assign(make('option', name), { value: String(curve) }));

export function tableSection({ title, head, rows, notes, outside }: ReportTable): HTMLElement {
  const section = document.createElement('section');
  const table = document.createElement('table');
  const headRow = table.createTHead().insertRow();
  for (const text of head) headRow.append(Object.assign(make('th', text), { scope: 'col' }));
  const body = table.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const text of cells) row.insertCell().textContent = text;
    // The table of configurations, which alone has an empty corner, marks the rows whose values differ.
    const values = new Set(cells.slice(1).filter((text) => text !== ''));
    if (head[0] === '' && values.size > 1) row.className = 'differs';
  }
  section.append(make('h2', title), table, ...notes.map((note) => make('p', note)));
  if (outside !== '') section.append(make('p', `outside: ${outside}`, 'outside'));
  return section;
}

export const sourceRows = (sources: readonly string[]): HTMLElement[] => sources.map((source) => make('div', source));
