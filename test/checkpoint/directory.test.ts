// Finds checkpoints among damaged, unfinished and half-removed ones, and keeps the right ones.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { checkedJson } from '../../src/base/files/checked-json.ts';
import { Gpt2Error, listCheckpoints, resolveCheckpoint, writeCheckpoint } from '../../src/index.ts';
import { checkpointName, newestValidCheckpoint, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { readManifest } from '../../src/weights/checkpoint/manifest.ts';
import { type Keeping, pruneCheckpoints } from '../../src/weights/checkpoint/prune.ts';
import { describeBackends } from '../support/backends.ts';
import { deadProcess, emptyModel, manifestFields, type Trained, temporaryFolders } from './trained-model.ts';

const newFolder = temporaryFolders();

describeBackends('checkpoints', (device) => {
  let trained: Trained;
  let run: string;
  let folder: string;
  beforeAll(() => {
    trained = emptyModel(device());
  });
  beforeEach(() => {
    run = newFolder();
    folder = join(run, 'checkpoints');
  });

  const write = (step: number) => writeCheckpoint({ folder, step, ...trained, manifest: manifestFields });
  const names = () => readdirSync(folder).sort();
  type Manifest = { model: object; files: object[] };
  const editManifest = (path: string, changes: (manifest: Manifest) => object) => {
    const file = join(path, 'manifest.json');
    const manifest = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(file, checkedJson({ ...manifest, ...changes(manifest) }));
  };

  describe('a path stands for', () => {
    it('the checkpoint itself, or the newest of a run or of its checkpoints folder', () => {
      const paths = [90, 100, 8].map(write);
      expect(listCheckpoints(folder)).toEqual([paths[2], paths[0], paths[1]]);
      expect(resolveCheckpoint(run).path).toBe(paths[1]);
      expect(resolveCheckpoint(folder).path).toBe(paths[1]);
      expect(resolveCheckpoint(paths[0]!)).toMatchObject({ path: paths[0], damaged: [], manifest: { step: 90 } });
    });

    it('nothing, and says so', () => {
      expect(() => resolveCheckpoint(join(run, 'none'))).toThrow(/none does not exist; name a run/);
      expect(() => resolveCheckpoint(run)).toThrow('is neither a checkpoint nor a run with one');
      expect(listCheckpoints(folder)).toEqual([]);
      expect(newestValidCheckpoint(folder)).toEqual({ checkpoint: undefined, damaged: [] });
      writeFileSync(folder, 'a file');
      expect(listCheckpoints(folder)).toEqual([]);
    });

    it('the newest that is whole; the others are named, each with what is wrong with it', () => {
      const paths = [1, 2, 3, 4, 5, 6].map(write);
      const [good = '', missing = '', shorter = '', changed = '', noManifest = '', tornManifest = ''] = paths;
      rmSync(join(missing, 'optimizer.safetensors'));
      truncateSync(join(shorter, 'model.safetensors'), 100);
      const weights = readFileSync(join(changed, 'model.safetensors'));
      weights[weights.length - 1]! ^= 1;
      writeFileSync(join(changed, 'model.safetensors'), weights);
      rmSync(join(noManifest, 'manifest.json'));
      truncateSync(join(tornManifest, 'manifest.json'), 50);
      writeFileSync(join(folder, 'step-00000007'), 'a file');

      const { path, damaged } = resolveCheckpoint(run);
      expect(path).toBe(good);
      expect(damaged.map((one) => one.path)).toEqual([
        join(folder, 'step-00000007'),
        ...paths.toReversed().slice(0, -1),
      ]);
      const reasons = damaged.map(({ reason }) => reason);
      expect(reasons.every((reason) => !reason.includes('\n'))).toBe(true);
      expect(reasons[1]).toContain('manifest.json cannot be used');
      expect(reasons[2]).toContain('manifest.json is missing');
      expect(reasons[3]).toContain('model.safetensors has changed since it was written: its sha256 differs');
      expect(reasons[4]).toMatch(/model\.safetensors has 100 bytes, not the \d+ of its manifest/);
      expect(reasons[5]).toContain('optimizer.safetensors is missing');

      rmSync(good, { recursive: true });
      expect(() => resolveCheckpoint(run)).toThrow(/no valid checkpoint: .*00000007.*optimizer.safetensors is missing/);
      expect(() => resolveCheckpoint(changed)).toThrow('its sha256 differs');
    });
  });

  it.each(['model.safetensors', 'optimizer.safetensors', 'tokenizer.json'])('a changed byte of %s is found', (name) => {
    const path = writeCheckpoint({ folder, step: 1, ...trained, tokenizer: '{}', manifest: manifestFields });
    const content = readFileSync(join(path, name));
    content[content.length - 1]! ^= 1;
    writeFileSync(join(path, name), content);
    expect(() => verifyCheckpoint(path)).toThrow(`${join(path, name)} has changed since it was written`);
  });

  it('a link in a checkpoint is not followed', () => {
    for (const [step, name] of ['model.safetensors', 'manifest.json'].entries()) {
      const path = write(step);
      const elsewhere = join(dirname(folder), `elsewhere-${name}`);
      renameSync(join(path, name), elsewhere);
      symlinkSync(elsewhere, join(path, name));
      expect(() => verifyCheckpoint(path)).toThrow(`${join(path, name)} is a link; replace it by the file itself`);
    }
  });

  describe('a manifest is refused', () => {
    const unread = { name: 'mean.safetensors', bytes: 0, sha256: '0'.repeat(64) };
    const none = { layers: 0, channels: 1, heads: 1, context: 1, vocabularySize: 1 };
    const tooManyLayers =
      /step-00000001 describes a model of \d[\de+.]* parameters, but model\.safetensors has \d+ bytes$/;
    it.each<[string, (manifest: Manifest) => object, string | RegExp]>([
      ['of another version', () => ({ version: 3, step: 'later' }), 'is 3, this program reads 1 and 2; update gpt2.ts'],
      ['of another program', () => ({ format: 'x' }), 'does not describe a gpt2.ts checkpoint'],
      ['with a step that is no number', () => ({ step: '20' }), 'step'],
      ['of a model of no size', () => ({ model: none }), 'layers'],
      ['whose heads do not divide its channels', ({ model }) => ({ model: { ...model, heads: 5 } }), 'channels'],
      ['that names files elsewhere', ({ files }) => ({ files: [{ ...files[0], name: '../../secret' }] }), 'files'],
      ['that lists no weights', () => ({ files: [] }), 'it lists no model.safetensors'],
      ['with a later file', ({ files }) => ({ files: [...files, unread] }), 'it lists a file of a later version'],
      ['with an unknown part', ({ model }) => ({ model: { ...model, experts: 64 } }), 'Unrecognized key: "experts"'],
      ['of more layers than its file has', ({ model }) => ({ model: { ...model, layers: 40 } }), tooManyLayers],
      ['of layers beyond count', ({ model }) => ({ model: { ...model, layers: 2 ** 53 - 1 } }), tooManyLayers],
    ])('%s', (_, edit, message) => {
      const path = write(1);
      editManifest(path, edit);
      expect(() => verifyCheckpoint(path)).toThrow(Gpt2Error);
      expect(() => verifyCheckpoint(path)).toThrow(message);
    });
  });

  it('a manifest without its checksum is read only in the version that had none', () => {
    const path = write(1);
    const file = join(path, 'manifest.json');
    const { sha256: _, ...manifest } = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(file, JSON.stringify(manifest));
    expect(() => verifyCheckpoint(path)).toThrow('it has no sha256, which version 2 requires');
    writeFileSync(file, JSON.stringify({ ...manifest, version: 1 }));
    expect(verifyCheckpoint(path).manifest.step).toBe(1);
  });

  it('a manifest of more than 16 MiB is not read', () => {
    const path = write(1);
    truncateSync(join(path, 'manifest.json'), 5 * 2 ** 30);
    expect(() => verifyCheckpoint(path)).toThrow('it has 5368709120 bytes, more than the limit of 16777216');
  });

  describe('what a killed writer left', () => {
    it('is no checkpoint, and gone after the next write', () => {
      const whole = write(10);
      cpSync(whole, join(folder, `.step-00000020.${deadProcess}.tmp`), { recursive: true });
      mkdirSync(join(folder, `.step-00000030.${process.pid}.tmp`));
      writeFileSync(join(folder, 'notes.txt'), 'of the user');
      expect(resolveCheckpoint(run)).toMatchObject({ path: whole, damaged: [] });
      write(40);
      expect(names()).toEqual(['notes.txt', 'step-00000010', 'step-00000040']);
    });

    it('stays while its writer lives', () => {
      mkdirSync(folder);
      const other = `.step-00000020.${process.ppid}.tmp`;
      mkdirSync(join(folder, other));
      write(10);
      expect(names()).toEqual([other, 'step-00000010']);
    });

    it('between the two renames of a replacement is found, and put back by the next write', () => {
      write(10);
      const path = write(20);
      const aside = join(folder, `.step-00000020.${deadProcess}.old`);
      renameSync(path, aside);
      expect(listCheckpoints(folder).map((one) => basename(one))).toEqual(['step-00000010', basename(aside)]);
      expect(resolveCheckpoint(run)).toMatchObject({ path: aside, manifest: { step: 20 } });
      write(30);
      expect(names()).toEqual(['step-00000010', 'step-00000020', 'step-00000030']);
      verifyCheckpoint(path);
    });

    it('after a replacement is not counted twice, and gone after the next write', () => {
      const path = write(20);
      cpSync(path, join(folder, `.step-00000020.${deadProcess}.old`), { recursive: true });
      expect(listCheckpoints(folder)).toEqual([path]);
      write(30);
      expect(names()).toEqual(['step-00000020', 'step-00000030']);
    });
  });

  describe('pruning', () => {
    it.each<[what: string, steps: number[], keeping: Keeping, left: number[], damaged?: number]>([
      ['all, if there are fewer', [1, 2, 3], { keep: 9 }, [1, 2, 3]],
      ['as many as it is told', [1, 2, 3, 4, 5], { keep: 2 }, [4, 5]],
      ['at least the newest', [1, 2, 3], { keep: 0 }, [3]],
      ['whole ones of every so many steps', [10, 15, 20, 25, 30, 35], { keep: 1, keepEvery: 10 }, [10, 30, 35], 20],
      ['a whole one in place of a damaged one', [10, 40, 20], { keep: 1 }, [20], 40],
    ])('keeps %s', (_, steps, keeping, left, damaged) => {
      for (const step of steps) write(step);
      if (damaged) truncateSync(join(folder, checkpointName(damaged), 'optimizer.safetensors'), 10);
      pruneCheckpoints(folder, keeping);
      expect(names()).toEqual(left.map(checkpointName));
      expect(existsSync(dirname(folder))).toBe(true);
    });

    it('keeps what was written last, though the clock was set back between two, or stands still', () => {
      onTestFinished(() => void vi.useRealTimers());
      vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-06-01T12:00:00Z') });
      write(10);
      vi.setSystemTime(new Date('2020-01-01T00:00:00Z'));
      // A run that went on from an older checkpoint: the order of steps is not that of writing.
      write(40);
      write(30);
      write(20);
      pruneCheckpoints(folder, { keep: 2 });
      expect(names()).toEqual(['step-00000020', 'step-00000030']);
      vi.setSystemTime(new Date('2027-01-01T00:00:00Z'));
      expect(readManifest(write(5)).time).toBe('2027-01-01T00:00:00.000Z');
      pruneCheckpoints(folder, { keep: 1 });
      expect(names()).toEqual(['step-00000005']);
    });

    it('writes beside a checkpoint whose time is none, or the last that there is', () => {
      for (const [step, time] of ['yesterday', '+275760-09-13T00:00:00.000Z'].entries()) {
        editManifest(write(step), () => ({ time }));
        verifyCheckpoint(write(step + 10));
      }
    });

    it('keeps what was written last, though a step beyond it is there', async () => {
      editManifest(write(40), () => ({ time: '2020-01-01T00:00:00.000Z' }));
      write(20);
      pruneCheckpoints(folder, { keep: 1 });
      expect(names()).toEqual(['step-00000020']);
    });
  });
});
