// What the package says of itself where it is installed; scripts/test-package installs it.
import { expect, it } from 'vitest';
import { asTyped } from '../../src/package-root.ts';

it.each([
  ['run `npm run build:cuda`', 'run `npm --prefix node_modules/gpt2.ts run build:cuda`'],
  ['next: npm run train -- --data data/x --steps 100', 'next: npx gpt2 train --data data/x --steps 100'],
  ['npm run prepro tinyshakespeare', 'npx gpt2 prepro tinyshakespeare'],
  ['npm run --silent eval -- --json', 'npx gpt2 eval --json'],
  ['npm run --silent gpt2 -- doctor', 'npx gpt2 doctor'],
  ['npm run gpt2 -- replay runs/x', 'npx gpt2 replay runs/x'],
])('%s', (text, installed) => {
  expect(asTyped(text, true)).toBe(installed);
  expect(asTyped(text, false)).toBe(text);
});
