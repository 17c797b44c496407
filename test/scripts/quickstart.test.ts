// scripts/quickstart with tools that do nothing: what it runs, and what it says it made.
import { execFileSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { program } from '../../src/commands/command-line.ts';
import { workplace } from '../support/cli.ts';
import { argumentsOf, documentedCommands } from '../support/documented.ts';

const place = workplace();

/** What it prints after the last command; npm prints its own arguments, and fails where they match. */
function quickstart(failing: string): { ran: string[]; said: string } {
  for (const tool of ['node', 'cmake', 'c++', 'npm']) {
    writeFileSync(place.path(tool), `#!/bin/sh\necho "ran $*"\ncase "$*" in ${failing}) exit 1; esac\n`);
    chmodSync(place.path(tool), 0o755);
  }
  const script = fileURLToPath(new URL('../../scripts/quickstart', import.meta.url));
  const text = execFileSync(script, { encoding: 'utf8', env: { PATH: `${place.folder}:/usr/bin:/bin` } });
  const lines = text.split('\n');
  const last = lines.findLastIndex((line) => line.startsWith('ran '));
  return { ran: lines.filter((line) => line.startsWith('ran ')), said: lines.slice(last + 1).join('\n') };
}

it.each([
  ['tinyshakespeare', 'nothing'],
  ['own-source', '*prepro*tinyshakespeare*'],
])('ends with what it made of %s, where it is, and commands that can be typed', async (set, failing) => {
  const { ran, said } = quickstart(failing);
  const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
  expect(said).toContain(`In ${root}:\n  data/${set}, data/${set}-char: `);
  const made = ran.flatMap((line) => /--out (\S+)/.exec(line)?.[1] ?? []);
  expect(made).toEqual(['runs/quickstart', 'runs/laptop']);
  for (const run of made) expect(said).toContain(`\n  ${run}: `);
  const next = documentedCommands(said);
  expect(next.length).toBe(3);
  expect(next[1]).toContain(`data/${set}-char`);
  for (const command of next) {
    const root = program(() => new AbortController().signal);
    let ran = false;
    for (const each of [...root.commands, ...root.commands.flatMap(({ commands }) => commands)]) {
      each.action(() => {
        ran = true;
      });
    }
    await root.parseAsync(argumentsOf(command), { from: 'user' });
    expect(ran, command).toBe(true);
  }
});
