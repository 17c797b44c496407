// A run whose folder or log is removed, moved or replaced while it trains: the next save makes the folder again, in its place or
// beside what is there by then, with every line of the log. The run ends and resumes with the bits of an undisturbed one.
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { RunEvent } from '../../src/runs/schema.ts';
import { train } from '../../src/train/train.ts';
import { BackgroundWriter } from '../../src/weights/checkpoint/background.ts';
import { resolveCheckpoint, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, Workplace, workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { rankData, tinyRanks } from '../support/ranks.ts';
import { tinyRun } from '../support/tiny-run.ts';
import { until } from '../support/until.ts';

const place = workplace();
place.data({ vocabulary: 100 });
const given = { ...tinyRun, saveEvery: 5, steps: 12, data: place.path('data') };
let straight: readonly string[];
beforeAll(async () => {
  await train({ ...given, out: place.path('straight') });
  straight = figuresOf(place.path('straight'));
});

const log = (out: string) => join(out, 'log.jsonl');
const replace = (path: string) => {
  remove(path);
  writeFileSync(path, 'of an editor');
};
const expectForeign = (path: string) => expect(readFileSync(path, 'utf8')).toBe('of an editor');

/** The background save may write a file after rmSync has listed a folder, which it then cannot remove, however often it tries. */
function remove(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
    remove(folder);
  }
}

/** The damage to a run's folder; the folder in which the run continues; the other folders afterwards. */
const cases: [string, take: (out: string) => void, suffix: string, rest?: (out: string) => void][] = [
  ['removed', remove, ''],
  ['moved', (out) => renameSync(out, `${out}-moved`), '', (out) => expect(existsSync(log(`${out}-moved`))).toBe(true)],
  ['replaced by a file', replace, '-rescued', expectForeign],
  ['without its log', (out) => rmSync(log(out)), '-rescued', (out) => expect(existsSync(log(out))).toBe(false)],
  ['with another log', (out) => replace(log(out)), '-rescued', (out) => expectForeign(log(out))],
];

describe.each(cases)('its folder %s', (name, take, suffix, rest) => {
  it.each([3, 11, 'done', 'writing'])('at %s: the run ends and resumes as undisturbed', async (at) => {
    const out = place.path(`${name.replaceAll(' ', '-')}-${at}`);
    const left = [take];
    const takeIf = (isWhen: boolean) => void (isWhen && left.pop()?.(out));
    const onEvent = (event: RunEvent) => takeIf(event.event === at || (event.event === 'train' && event.step === at));
    const write = BackgroundWriter.prototype.write;
    vi.spyOn(BackgroundWriter.prototype, 'write').mockImplementation(function (this: BackgroundWriter, head, ...more) {
      takeIf(at === 'writing' && head.step === 12);
      return write.call(this, head, ...more);
    });
    const stopAfter = at === 3 ? 7 : 12;
    const onNotice = vi.fn();
    const result = await train({ ...given, stopAfter, out }, { onEvent, onNotice });
    expect(result).toMatchObject({ out: out + suffix, steps: stopAfter });
    const how = name === 'with another log' ? 'replaced by another file' : 'removed or moved';
    expect(onNotice).toBeCalledWith(`${log(out)} was ${how} during the run; the run continues in ${out}${suffix}`);
    rest?.(out);
    expect(resolveCheckpoint(out + suffix).manifest.step).toBe(stopAfter);
    if (stopAfter < 12) await train({ out: out + suffix, resume: true });
    expect(figuresOf(out + suffix)).toEqual(straight);
  });
});

it('with nowhere to save it trains on, and says so', async () => {
  const [out, parent] = [place.path('parent/run'), place.path('parent')];
  const onNotice = vi.fn();
  const onEvent = () => void (lstatSync(parent).isDirectory() && replace(parent));
  const why = `${log(out)} was removed or moved during the run and cannot be written again: `;
  await expect(train({ ...given, out }, { onEvent, onNotice })).rejects.toThrow(why);
  const expected = [5, 10].map((step) => `step ${step} was not saved; training continues: ${why}`);
  expect(onNotice.mock.calls).toEqual(expected.map((text) => [expect.stringContaining(text)]));
});

const endless = [...tinyModel, ...'--data data --val-every 0 --sample-every 0 --batch 1 --seq 32'.split(' ')];

/** A run of a million steps that has begun, and a function that asks it to stop, and expects that it saves. */
async function running(where: Workplace, args: readonly string[], folder: string) {
  const { child, ended } = where.begin(['train', ...args, '--steps', '1000000', '--out', folder]);
  const path = where.path(folder, 'log.jsonl');
  await until(() => expect(readFileSync(path, 'utf8')).toContain('"event":"train"'));
  return async (out: string) => {
    child.kill('SIGTERM');
    expect(await ended).toEqual({ code: 143, signal: null });
    verifyCheckpoint(resolveCheckpoint(where.path(out)).path);
  };
}

it('its log removed: a second run is refused all the same', async () => {
  const stop = await running(place, endless, 'lone');
  rmSync(place.path('lone/log.jsonl'));
  for (const how of [['--overwrite', ...endless], ['--resume'], endless]) {
    const { code, stderr } = place.run(['train', '--out', 'lone', ...how]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^another process is writing lone; /)]);
  }
  await stop('lone-rescued');
});

it('its folder moved, a second run in its place: each has its own checkpoints', async () => {
  const stop = await running(place, [...endless, '--save-every', '100000'], 'shared');
  renameSync(place.path('shared'), place.path('moved'));
  place.ok(['train', ...endless, '--steps', '4', '--out', 'shared']);
  await stop('shared-rescued');
  expect(readdirSync(place.path('shared/checkpoints'))).toEqual(['step-00000004']);
  expect(readFileSync(place.path('shared/log.jsonl'), 'utf8').match(/"event":"run"/g)?.length).toBe(1);
});

it.each([0, 1])('of two ranks, ZeRO %i, its folder removed: it is made again, and resumes', async (zero) => {
  using other = new Workplace();
  rankData(other);
  const args = [...tinyRanks, ...`--gpus 2 --zero ${zero} --batch 1 --val-every 0 --save-every 100`.split(' ')];
  const stop = await running(other, args, 'run');
  rmSync(other.path('run'), { recursive: true });
  await stop('run');
  const { step } = resolveCheckpoint(other.path('run')).manifest;
  other.ok(['train', '--out', 'run', '--resume', '--stop-after', String(step + 1)]);
});
