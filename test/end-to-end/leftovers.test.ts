// Files that interrupted saves have left in a run folder: they go with the next save or the end of the run; where they cannot be
// removed the run says so once, and saves.
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { moduleLoader, moduleOf } from '../support/built.ts';
import { command, tinyModel, workplace } from '../support/cli.ts';
import { noSmallDisk, onSmallDisk } from '../support/small-disk.ts';

/** No process has this number: it is over the largest that Linux gives. */
const deadProcess = 4194305;

const place = workplace();
place.data({ train: 9000, vocabulary: 100 });

const given = `train --data data --val-every 0 --sample-every 0 --batch 1 --seq 32`.split(' ');

describe('of a save that was killed while it removed what is not kept', () => {
  const saved = (out: string) => readdirSync(place.path(out, 'checkpoints'));
  const resume = (out: string) => place.ok(['train', '--out', out, '--resume']).stdout;
  const finished = (out: string) => {
    place.ok([...given, ...tinyModel, '--steps', '4', '--keep', '1', '--out', out]);
    place.file(`${out}/checkpoints/.step-00000002.${deadProcess}.tmp/model.safetensors`, 'part');
  };

  it('nothing is left once a finished run is resumed', () => {
    finished('finished');
    const log = readFileSync(place.path('finished', 'log.jsonl'), 'utf8');
    expect(resume('finished')).toContain('is finished: 4 of 4 steps are done');
    expect(saved('finished')).toEqual(['step-00000004']);
    expect(readFileSync(place.path('finished', 'log.jsonl'), 'utf8')).toBe(log);
  });

  it('nothing is left once the run is resumed that had only its end to tell', () => {
    finished('killed');
    // Killed in its last save: neither that nor the end is in the log, and one more was to be removed.
    const log = place.path('killed', 'log.jsonl');
    const lines = readFileSync(log, 'utf8').split('\n');
    writeFileSync(log, lines.filter((line) => !/"event":"(checkpoint|done)"/.test(line)).join('\n'));
    const checkpoints = place.path('killed', 'checkpoints');
    cpSync(`${checkpoints}/step-00000004`, `${checkpoints}/step-00000003`, { recursive: true });
    expect(resume('killed')).toMatch(/^done: /m);
    expect(saved('killed')).toEqual(['step-00000004']);
  });
});

describe.skipIf(noSmallDisk !== undefined)(`that cannot be removed${noSmallDisk ? ` (${noSmallDisk})` : ''}`, () => {
  it('is told once and costs no save', () => {
    // A mount point cannot be removed by anyone.
    const { stdout } = onSmallDisk(
      place.path('disk'),
      64,
      `disk=$1; shift
      "$@" --steps 6 --save-every 2 --stop-after 1 --out $disk/run >$disk/said
      for step in 2 9; do
        left=$disk/run/checkpoints/.step-0000000$step.${deadProcess}.tmp
        mkdir -p $left
        mount -t tmpfs none $left
      done
      "$@" --out $disk/run --resume
      ls -A $disk/run/checkpoints`,
      [process.execPath, ...command, ...given.with(2, place.path('data')), ...tinyModel],
    );
    expect(stdout).toMatch(
      /^cannot remove the remains of an interrupted save, .*run\/checkpoints\/\.step-0000000[29]\.4194305\.tmp: EBUSY.* \(and 1 more\); remove it by hand; training continues$/m,
    );
    expect(stdout.match(/cannot remove/g)?.length).toBe(1);
    expect(stdout).toMatch(/^step-00000001\nstep-00000002\nstep-00000004\nstep-00000006$/m);
  });

  it('does not stand in the way of a process that has its number, nor of one that removes', () => {
    const script = `
      import { execFileSync } from 'node:child_process';
      import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
      import { join } from 'node:path';
      import { saveState } from '${moduleOf('weights/checkpoint/write.ts')}';
      import { parameterTable, realCount } from '${moduleOf('model/parameters.ts')}';
      const [folder] = process.argv.slice(1);
      const left = (step, ending) => join(folder, \`.step-0000000\${step}.\${process.pid}.\${ending}\`);
      for (const path of [left(1, 'tmp'), left(2, 'old')]) {
        mkdirSync(path);
        execFileSync('mount', ['-t', 'tmpfs', 'none', path]);
        writeFileSync(join(path, 'model.safetensors'), '');
      }
      const config = { layers: 1, channels: 8, heads: 1, context: 4, vocabularySize: 10, paddedVocabularySize: 128 };
      const manifest = { program: '', configuration: {}, position: { epoch: 0, shard: 0, sample: 0 }, logBytes: 0, codePath: '', shards: [] };
      const weights = { prefix: '', parameters: parameterTable(config), read: (parameter) => new Float32Array(realCount(parameter)) };
      for (const step of [1, 2, 2, 3]) {
        const { failure, pruneFailure } = saveState({ folder, step, manifest }, { config, weights, optimizer: [] }, { keep: 2 });
        console.log(step, failure, pruneFailure);
      }
      console.log(readdirSync(folder).map((entry) => entry.replace(String(process.pid), 'PID')).join(' '));
    `;
    const node = [process.execPath, ...moduleLoader, '--input-type=module', '--eval', script];
    const { stdout } = onSmallDisk(place.path('disk'), 64, `disk=$1; shift; "$@" $disk`, node);
    expect(stdout.trimEnd().split('\n')).toEqual([
      ...[1, 2, 2, 3].map((step) => `${step} undefined undefined`),
      '.step-00000001.PID.tmp .step-00000002.PID.old step-00000002 step-00000003',
    ]);
  });
});
