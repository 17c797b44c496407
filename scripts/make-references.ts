// Takes the series of data/reference/llmc-*.json from the recorded logs of llm.c's program: `node --import tsx
// scripts/make-references.ts FOLDER`. A reference's source, configuration and limits are written by hand; a log's first line is
// its command.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Gpt2Error } from '../src/base/errors.ts';
import { packageRoot } from '../src/base/package-root.ts';
import { type Reference, readReference, referenceNames } from '../src/report/compare/reference.ts';

const llmcNames = () => referenceNames().filter((name) => name.startsWith('llmc-'));

/** The log of "llmc-d6-fp32-b4-t64" is llmc_tinyshakespeare_d6_fp32_b4_t64.log; the published run's log has a different name. */
const logOf = (name: string): string =>
  name === 'llmc-d12-fineweb10b-8xh100'
    ? 'llmc_fineweb10B_124M_8xH100.log'
    : `${name.replace('llmc', 'llmc_tinyshakespeare').replaceAll('-', '_')}.log`;

/** The series in a log of llm.c's program (f1e2ace). */
function seriesOf(log: string): Reference['series'] {
  const points = (pattern: RegExp): [number, number][] =>
    [...log.matchAll(pattern)].map((match) => [Number(match[1]), Number(match[2])]);
  return {
    train: points(/^s:(\d+) trl:(\S+)/gm),
    val: points(/^s:(\d+) tel:(\S+)/gm),
    norm: points(/^s:(\d+) trl.* norm:(\S+)/gm),
    lr: points(/^s:(\d+) trl.* lr:(\S+)/gm),
  };
}

/** JSON with one line per series, for readable diffs. */
const formatReference = (reference: Reference): string =>
  `${JSON.stringify(reference, null, 2)
    .replace(/\[\s+(-?[\d.e-]+),\s+(-?[\d.e-]+)\s+\]/g, '[$1, $2]')
    .replace(/\],\s+\[/g, '], [')}\n`;

/** The text of each reference of llm.c, by file name, made from the logs in a folder. @throws Gpt2Error naming a missing log */
export function makeReferences(folder: string): Map<string, string> {
  return new Map(
    llmcNames().map((name) => {
      const path = join(folder, logOf(name));
      if (!existsSync(path)) throw new Gpt2Error(`${path} does not exist: name the folder of the recorded logs`);
      const log = readFileSync(path, 'utf8');
      const reference = { ...readReference(name), series: seriesOf(log) };
      const command = /^# (.*)$/m.exec(log)?.[1];
      if (command !== undefined && reference.source.command !== `train_gpt2cu ${command}`) {
        throw new Gpt2Error(`${path} was recorded by "${command}", not by ${name}'s "${reference.source.command}"`);
      }
      return [`${name}.json`, formatReference(reference)];
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder] = process.argv;
  if (!folder) {
    process.stderr.write('usage: node --import tsx scripts/make-references.ts FOLDER_OF_LOGS\n');
    process.exitCode = 2;
  } else {
    const target = join(packageRoot, 'data', 'reference');
    const made = makeReferences(folder);
    for (const [name, text] of made) writeFileSync(join(target, name), text);
    process.stdout.write(`${made.size} references in ${target}\n`);
  }
}
