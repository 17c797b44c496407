// @ts-check
// A run's state, tiles, samples and the end of its log, put into the page as text. What they say is in tiles.js and logged-run.js.
import { formatStep } from './numbers.js';

/** @typedef {import('./logged-run.js').Sample} Sample */
/** @typedef {import('./tiles.js').Tile} Tile */

/** @param {HTMLElement} line @param {{ state: string, text: string }} shown */
export function showState(line, { state, text }) {
  line.dataset.state = state;
  // A text that is put in again is read out again.
  if (line.textContent !== text) line.textContent = text;
}

/** @param {HTMLElement} list @param {readonly Tile[]} tiles */
export function showTiles(list, tiles) {
  list.replaceChildren(
    ...tiles.map(({ label, value, note }) => {
      const tile = document.createElement('div');
      const term = Object.assign(document.createElement('dt'), { textContent: label });
      const description = Object.assign(document.createElement('dd'), { textContent: value });
      if (note) description.append(Object.assign(document.createElement('small'), { textContent: note }));
      tile.append(term, description);
      return tile;
    }),
  );
}

/**
 * The newest sample, unless the reader has chosen another.
 * @param {HTMLSelectElement} select
 * @param {HTMLElement} text
 * @param {{ samples: readonly Sample[] }} run
 */
export function showSamples(select, text, { samples }) {
  const isNewest = select.selectedIndex <= 0;
  const chosen = isNewest ? undefined : samples.find(({ step }) => String(step) === select.value);
  const shown = chosen ?? samples.at(-1);
  const newestFirst = samples.map(({ step }) => new Option(formatStep(step), String(step))).reverse();
  // A list that is open must not change under the reader's hand.
  if (newestFirst.length !== select.options.length || newestFirst[0]?.value !== select.options[0]?.value) {
    select.replaceChildren(...newestFirst);
  }
  select.disabled = samples.length === 0;
  select.value = String(shown?.step ?? '');
  if (text.textContent !== (shown?.text ?? 'none yet')) text.textContent = shown?.text ?? 'none yet';
}

/** The end of the log; it stays where the reader has scrolled to. @param {HTMLElement} box @param {{ lines: readonly string[] }} run */
export function showLog(box, { lines }) {
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  box.textContent = lines.slice(-300).join('\n');
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}
