// Inserts a run's state, tiles, samples and the end of its log into the page, as text.
import type { Sample } from '../logged-run.ts';
import { formatStep } from '../numbers.ts';
import type { Tile } from '../tiles.ts';
import { byId } from './elements.ts';

export function showState({ state, text }: { readonly state: string; readonly text: string }): void {
  const line = byId('state');
  line.dataset.state = state;
  // Screen readers read a text again whenever it is inserted.
  if (line.textContent !== text) line.textContent = text;
}

export function showTiles(tiles: readonly Tile[]): void {
  byId('tiles').replaceChildren(
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

/** The newest sample, unless the reader has chosen another. */
export function showSamples({ samples }: { readonly samples: readonly Sample[] }): void {
  const select = byId<HTMLSelectElement>('sample-step');
  const isNewest = select.selectedIndex <= 0;
  const chosen = isNewest ? undefined : samples.find(({ step }) => String(step) === select.value);
  const shown = chosen ?? samples.at(-1);
  const newestFirst = samples.map(({ step }) => new Option(formatStep(step), String(step))).reverse();
  // An open list must not change while the reader chooses.
  if (newestFirst.length !== select.options.length || newestFirst[0]?.value !== select.options[0]?.value) {
    select.replaceChildren(...newestFirst);
  }
  select.disabled = samples.length === 0;
  select.value = String(shown?.step ?? '');
  const text = shown?.text ?? 'none yet';
  if (byId('sample').textContent !== text) byId('sample').textContent = text;
}

/** The end of the log; it stays where the reader has scrolled to. */
export function showLog({ lines }: { readonly lines: readonly string[] }): void {
  const box = byId('log-tail');
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  box.textContent = lines.slice(-300).join('\n');
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}
