// Makes and fills the page's elements: buttons of series and curves, tables, sources; a run's state, tiles, samples, log lines; the theme.
// All text is inserted as text, so that a run's name cannot become markup. viewer.ts handles the clicks.
import { type Figure, type Look, legendOf, type Shown, seriesLabels, shownNames } from '../figure.ts';
import { formatCount, type Table } from '../format-text.ts';
import type { Tile } from '../tiles.ts';

export const byId = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;

/** The value of a variable of page.css that is light-dark(#…, #…), for a canvas, which does not know light-dark(). */
export const colorOf = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).match(/#\w+/g)![isDark() ? 1 : 0]!;

export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  content: string | readonly (string | Node)[] = '',
  className = '',
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  element.className = className;
  element.append(...[content].flat());
  return element;
}

export const seriesButtons = (choose: (series: Shown) => void): HTMLElement[] =>
  shownNames.map((name, index) => {
    const title = `${seriesLabels[name].long} (${index + 1})`;
    const button = Object.assign(make('button', seriesLabels[name].short), { type: 'button', title });
    button.dataset.series = name;
    button.addEventListener('click', () => choose(name));
    return button;
  });

/** The legend: a group of buttons for each curve, one for training and one for validation. Lines break only between groups. */
export function legendGroups(figure: Figure, shown: Shown, toggle: (key: string) => void): HTMLElement[] {
  const groups = new Map<number, HTMLElement>();
  for (const { key, curve, part, label } of legendOf(figure, shown)) {
    const { dash, ...look } = figure.curves[curve]!;
    const button = Object.assign(make('button'), { type: 'button', title: 'show or hide' });
    button.dataset.key = key;
    const width = curve === figure.baseline ? 4.6 : 2;
    const dot = part === 'val' ? '<circle cx="15" cy="5" r="4" stroke="none" fill="currentColor"/>' : '';
    // This markup contains only numbers and constants. Names of runs are appended below, as text.
    button.innerHTML = `<svg width="30" height="10" aria-hidden="true"><line x2="30" y1="5" y2="5" stroke="currentColor" stroke-width="${width}" stroke-dasharray="${dash.join(' ')}"/>${dot}</svg>`;
    (button.firstElementChild as SVGElement).style.color = colorsOf(look)[part];
    button.append(make('span', part === 'val' && shown === 'loss' ? 'validation' : label));
    button.setAttribute('aria-label', label);
    button.addEventListener('click', () => toggle(key));
    if (!groups.has(curve)) groups.set(curve, make('span'));
    groups.get(curve)!.append(button);
  }
  return [...groups.values()];
}

export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): HTMLTableElement {
  const table = make('table');
  table.createTHead().append(rowOf('th', head));
  table.createTBody().append(...rows.map((cells) => rowOf('td', cells)));
  return table;
}

const rowOf = (kind: 'th' | 'td', texts: readonly string[]): HTMLElement =>
  make(
    'tr',
    texts.map((text) => make(kind, text)),
  );

/** Puts a table into a box that scrolls horizontally. */
export const scrolled = (table: HTMLTableElement): HTMLElement => make('div', [table], 'scrolled');

export function tableSection({ title, head, rows, notes, command, outside }: Table): HTMLElement {
  const table = tableOf(head, rows);
  for (const row of table.tBodies[0]!.rows) {
    // Mark rows whose values differ in the table of configurations, which is the only table with an empty corner cell.
    const values = new Set([...row.cells].slice(1).map(({ textContent }) => textContent));
    values.delete('');
    if (head[0] === '' && values.size > 1) row.className = 'differs';
  }
  // Allow line breaks only between the options of the command.
  const words = command?.split(/ (?=--)/).flatMap((option) => [make('span', option), ' ']);
  return make('section', [
    ...[make('h2', title), scrolled(table), ...notes.map((note) => make('p', note))],
    ...(words ? [make('h3', 'The command that repeats the run'), make('pre', words, 'command')] : []),
    ...(outside ? [make('p', `outside: ${outside}`, 'outside')] : []),
  ]);
}

export function showState({ state, text }: { readonly state: string; readonly text: string }): void {
  const line = byId('state');
  line.dataset.state = state;
  // Keep an unchanged text, because screen readers read every inserted text aloud.
  if (line.textContent !== text) line.textContent = text;
}

export const showFacts = (facts: readonly string[]): void => byId('facts').replaceChildren(facts.join(' · '));

export function showTiles(tiles: readonly Tile[]): void {
  byId('tiles').replaceChildren(
    ...tiles.map(({ label, value, note }) =>
      make('div', [make('dt', label), make('dd', note ? [value, make('small', note)] : value)]),
    ),
  );
}

/** Shows the sample that the reader has chosen, or else the newest. */
export function showSamples({ samples }: Pick<NonNullable<Figure['run']>, 'samples'>): void {
  const select = byId<HTMLSelectElement>('sample-step');
  const isNewest = select.selectedIndex <= 0;
  const chosen = isNewest ? undefined : samples.find(({ step }) => String(step) === select.value);
  const shown = chosen ?? samples.at(-1);
  const newestFirst = samples.map(({ step }) => new Option(formatCount(step), String(step))).reverse();
  // Keep an unchanged list, because the reader may have it open.
  if (newestFirst.length !== select.options.length || newestFirst[0]?.value !== select.options[0]?.value) {
    select.replaceChildren(...newestFirst);
  }
  select.disabled = samples.length === 0;
  select.value = String(shown?.step ?? '');
  const text = shown?.text ?? 'none yet';
  if (byId('sample').textContent !== text) byId('sample').textContent = text;
}

/** Shows the last log lines. If the box was scrolled to its end, it stays at the end. */
export function showLog({ lines }: Pick<NonNullable<Figure['run']>, 'lines'>): void {
  const box = byId('log-tail');
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  box.textContent = lines.slice(-300).join('\n');
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

export const isDark = (): boolean => document.documentElement.style.colorScheme === 'dark';
export const colorsOf = ({ light, dark }: Pick<Look, 'light' | 'dark'>): Look['light'] => (isDark() ? dark : light);

/**
 * Starts with the system's theme, dark or light, until the reader chooses the other.
 * @param changed called now and after every change
 * @returns a function that switches to the other theme, as the button does
 */
export function startTheme(changed: () => void = () => {}): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const set = (dark: boolean) => {
    document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
    byId('theme').textContent = dark ? 'Light' : 'Dark';
    changed();
  };
  const follow = () => set(system.matches);
  const toggle = () => {
    system.removeEventListener('change', follow);
    set(!isDark());
  };
  system.addEventListener('change', follow);
  byId('theme').addEventListener('click', toggle);
  follow();
  return toggle;
}
