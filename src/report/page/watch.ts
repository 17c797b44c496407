// The script of the page of `kernel watch`: shows the progress after a save, the wrong tensors, and a kernel's times compared with the
// bound, the library's op and earlier versions.
import { describeRound, type KernelRound, type RoundKernel, type TimedRow, type WrongMap } from '../kernel-round.ts';
import { byId, make, scrolled, showState, showTiles, startTheme, tableOf, tableSection } from './elements.ts';
import { type Connection, listen } from './page-events.ts';

let round: KernelRound | undefined;
let connection: Connection = 'lost';

function showRound(round: KernelRound): void {
  byId('title').textContent = `${round.folder} at ${round.time}`;
  document.title = `${round.state} ${round.folder}`;
  const { compiling, testing, timing } = round.spent;
  const tile = (label: string, ms: number) => ({ label, value: ms === 0 ? '–' : `${(ms / 1000).toFixed(2)} s` });
  showTiles([tile('Compiling', compiling), tile('Testing', testing), tile('Timing', timing)]);
  const failed = round.error === undefined ? [] : [make('pre', round.error)];
  const rounds = { title: 'Earlier saves', head: ['at', 'result', 'took'], rows: round.history, notes: [] };
  const history = round.history.length > 0 ? [tableSection(rounds)] : [];
  byId('tables').replaceChildren(...failed, ...round.kernels.flatMap(kernelSections), ...history);
}

function state(): { state: string; text: string } {
  if (connection !== 'open') return { state: 'lost', text: 'no connection: kernel watch may have ended; trying again' };
  return round
    ? { state: round.state, text: describeRound(round) }
    : { state: 'waiting', text: 'waiting for the kernels' };
}

function kernelSections({ name, state, sentence, tested, wrong, error, times }: RoundKernel): HTMLElement[] {
  const section = make('section');
  const isBad = state === 'wrong' || state === 'notCompiled';
  section.append(make('h2', name), make('p', sentence || state, isBad ? 'outside' : ''));
  if (wrong && wrong.inputs.length > 0) section.append(make('p', `computed from ${wrong.inputs.join(', ')}`));
  if (wrong?.map) section.append(...picture(wrong.map));
  if (error !== undefined) section.append(make('pre', error));
  if (tested.length > 0) section.append(scrolled(tableOf(['size', 'results', 'largest error, of its bound'], tested)));
  const timed = times.map(({ title, head, rows, earlier }) => {
    const each = make('section');
    const current = rows.at(-1)!;
    each.append(make('h2', title), scrolled(barTable(head, rows, current)));
    if (earlier.length > 0) {
      const versions = scrolled(barTable(head, [current, ...earlier], current));
      each.append(make('h3', 'This version and the ones before it'), versions);
    }
    return each;
  });
  return [section, ...timed];
}

/** An image of a tensor's wrong elements, and a line that describes the image. */
function picture({ rows, columns, each: [high, wide], marks }: WrongMap): Element[] {
  const [width, height] = [marks[0]!.length, marks.length];
  const wrong = marks.flatMap((row, y) =>
    [...row].flatMap((mark, x) => (mark === '#' ? [svg('rect', { x, y, width: 1, height: 1 })] : [])),
  );
  // Up to 600 pixels wide, and at most 10 pixels per mark: otherwise a map of one short row would be huge.
  const scale = Math.min(10, 600 / width);
  const map = svg('svg', { class: 'map', viewBox: `0 0 ${width} ${height}`, width: width * scale, role: 'img' }, wrong);
  const size = high * wide > 1 ? `, each mark ${high} x ${wide} elements` : '';
  const text = `${rows} rows of ${columns}${size}; wrong elements are coloured`;
  map.setAttribute('aria-label', text);
  return [map, make('p', text)];
}

/** A table of times. In each row a bar follows the name; the row `current` is emphasized. */
function barTable(head: readonly string[], rows: readonly TimedRow[], current: TimedRow): HTMLTableElement {
  const withBar = (cells: readonly string[]) => [cells[0]!, '', ...cells.slice(1)];
  const bodyRows = rows.map(({ cells }) => withBar(cells));
  const table = tableOf(withBar(head), bodyRows);
  const longest = Math.max(...rows.map(({ ms }) => ms));
  for (const [index, row] of rows.entries()) {
    const line = table.tBodies[0]!.rows[index]!;
    if (row === current) line.className = 'own';
    const bar = svg('rect', { width: `${(100 * row.ms) / longest}%`, height: 12 });
    line.cells[1]!.append(svg('svg', { class: 'bar', 'aria-hidden': 'true' }, [bar]));
  }
  return table;
}

function svg(name: string, attributes: Readonly<Record<string, string | number>>, content: readonly Element[] = []) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries({ fill: 'currentColor', ...attributes }))
    element.setAttribute(key, `${value}`);
  element.append(...content);
  return element;
}

const toggleTheme = startTheme();
document.addEventListener('keydown', ({ key, ctrlKey, metaKey, altKey }) => {
  if (key === 't' && !ctrlKey && !metaKey && !altKey) toggleTheme();
});
listen(
  {
    kernels: (data) => {
      round = JSON.parse(data) as KernelRound;
      showRound(round);
    },
  },
  {
    news: (now) => {
      connection = now;
      showState(state());
    },
  },
);
showState(state());
