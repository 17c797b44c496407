#!/usr/bin/env node
// Runs the built program. It is a file of the repository, so that npx, which keeps what it finds at first, finds it before a build too.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const program = new URL('../dist/bundle/cli.js', import.meta.url);
if (existsSync(program)) await import(program.href);
else {
  const folder = fileURLToPath(new URL('..', import.meta.url));
  process.stderr.write(`gpt2.ts is not built: run \`npm ci && npm run build\` in ${folder}\n`);
  process.exitCode = 1;
}
