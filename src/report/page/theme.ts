// Dark and light: as the system is, until the reader chooses.
import { byId } from './elements.ts';

export const isDark = (): boolean => document.documentElement.dataset.theme === 'dark';

/** @param changed called at once, and after every change @returns changes to the other one, as the button does */
export function startTheme(changed: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const set = (dark: boolean) => {
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
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
