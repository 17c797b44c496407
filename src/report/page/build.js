// @ts-check
// The parts of the page that depend on the report: buttons of series and curves, tables, sources. Every text is put in as
// text, so that no name can become markup. What a click does is told by the caller, page.js.
import { seriesLabels } from './model.js';

/** @typedef {import('./model.js').ReportData} ReportData */
/** @typedef {import('../report-data.ts').ReportTable} ReportTable */
/** @typedef {import('./model.js').PlottedSeries} PlottedSeries */

/**
 * @param {string} name of an element
 * @param {string} text
 */
function make(name, text, className = '') {
  return Object.assign(document.createElement(name), { textContent: text, className });
}

/** @param {(series: PlottedSeries) => void} choose */
export function seriesButtons(choose) {
  return Object.entries(seriesLabels).map(([name, { short, long }], index) => {
    const button = make('button', short);
    Object.assign(button, { type: 'button', title: `${long} (${index + 1})` });
    button.dataset.series = name;
    button.addEventListener('click', () => choose(/** @type {PlottedSeries} */ (name)));
    return button;
  });
}

/**
 * One for each curve, with a piece of its line.
 * @param {ReportData} data
 * @param {(curve: number) => void} toggle
 */
export function legendButtons({ curves, baseline }, toggle) {
  return curves.map(({ name, dash }, curve) => {
    const button = make('button', '');
    Object.assign(button, { type: 'button', title: 'show or hide' });
    const swatch = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    for (const [key, value] of Object.entries({ width: '30', height: '8', 'aria-hidden': 'true' })) {
      swatch.setAttribute(key, value);
    }
    const look = {
      x1: '0',
      x2: '30',
      y1: '4',
      y2: '4',
      'stroke-width': curve === baseline ? '4.6' : '2',
      'stroke-dasharray': dash.join(' '),
    };
    for (const [key, value] of Object.entries(look)) line.setAttribute(key, value);
    swatch.append(line);
    button.append(swatch, make('span', name));
    button.addEventListener('click', () => toggle(curve));
    return button;
  });
}

/** @param {ReportData['curves']} curves */
export const baselineOptions = (curves) =>
  curves.map(({ name }, curve) => Object.assign(make('option', name), { value: String(curve) }));

/** @param {ReportTable} report */
export function tableSection({ title, head, rows, notes, outside }) {
  const section = document.createElement('section');
  const table = document.createElement('table');
  const headRow = table.createTHead().insertRow();
  for (const text of head) headRow.append(Object.assign(make('th', text), { scope: 'col' }));
  const body = table.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const text of cells) row.insertCell().textContent = text;
    // Only the table of configurations has an empty corner: there a row whose values differ is worth a look.
    const said = new Set(cells.slice(1).filter((text) => text !== ''));
    if (head[0] === '' && said.size > 1) row.className = 'differs';
  }
  section.append(make('h2', title), table, ...notes.map((note) => make('p', note)));
  if (outside !== '') section.append(make('p', `outside: ${outside}`, 'outside'));
  return section;
}

/** @param {readonly string[]} sources */
export const sourceRows = (sources) => sources.map((source) => make('div', source));
