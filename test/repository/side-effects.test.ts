// Importing the package changes nothing in the process, and importing a card nothing but how the card's files find the package.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { loader, Workplace } from '../support/cli.ts';

it('a program that imports the package and a card keeps its handlers and its resolver', () => {
  using place = new Workplace();
  mkdirSync(place.path('card'));
  writeFileSync(place.path('card/define.mjs'), "export { defineKernel } from 'gpt2.ts';");
  const card = "import { defineKernel } from './define.mjs';\nimport * as gpt2 from 'gpt2.ts';\n";
  const defined =
    "defineKernel({ op: 'gelu_forward', source: gpt2.version ?? 'a.cu', launches: () => [] as never[] });";
  writeFileSync(place.path('card/card.ts'), `${card}export default ${defined}\n`);
  writeFileSync(place.path('other.mjs'), "export * from 'gpt2.ts';");
  const script = `
    const handlers = () => process.eventNames().map((name) => [name, process.listenerCount(name)]);
    const before = handlers();
    const { loadCards } = await import('${new URL('../../src/index.ts', import.meta.url)}');
    const [card] = await loadCards('card');
    const found = await import('./other.mjs').then(() => 'found', ({ code }) => code);
    console.log(JSON.stringify([card.op, found, before, handlers()]));
  `;
  writeFileSync(place.path('program.mjs'), script);
  const args = ['--import', loader, 'program.mjs'];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: place.folder, encoding: 'utf8' });
  expect(stderr).toBe('');
  const [op, found, before, after] = JSON.parse(stdout);
  expect([op, found]).toEqual(['gelu_forward', 'ERR_MODULE_NOT_FOUND']);
  expect(after).toEqual(before);
});
