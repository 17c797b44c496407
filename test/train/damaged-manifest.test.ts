// Resumes from an older checkpoint if the newest manifest has values that would fail later. Also manifests of version 1, which
// have no checksum, and config.json of a run that resumes with it.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { checkpointsFolder, configPath, logPath } from '../../src/runs/paths.ts';
import { train } from '../../src/train/train.ts';
import { workplace } from '../support/cli.ts';
import { noticesOf, tinyRun } from '../support/tiny-run.ts';

const place = workplace();
let data: string;
beforeAll(async () => {
  data = place.data({ vocabulary: 100 });
  await train({ ...tinyRun, data, out: place.path('run'), steps: 8, stopAfter: 6, saveEvery: 3 });
});
/** A copy of the run, the newest manifest of which is another, without a checksum. */
function copied(name: string, change: (manifest: Values) => void = () => {}): string {
  const out = place.path(name);
  cpSync(place.path('run'), out, { recursive: true });
  const file = join(checkpointsFolder(out), 'step-00000006', 'manifest.json');
  const { sha256: _, ...manifest } = JSON.parse(readFileSync(file, 'utf8'));
  change(manifest);
  writeFileSync(file, JSON.stringify({ ...manifest, version: 1 }));
  return out;
}

type Values = Record<string, Record<string, unknown>>;

it.each<[string, (manifest: Values) => void, RegExp]>([
  ['no heads that fit', ({ model }) => Object.assign(model!, { heads: 5 }), /channels 32 are not divisible by heads 5/],
  ['4 heads', ({ model }) => Object.assign(model!, { heads: 4 }), /heads is 4 in its model but 2 in its configuration/],
  ['a sample beyond the data', ({ position }) => Object.assign(position!, { sample: 999_999 }), /"sample":999999/],
  ['a pass that no run reaches', ({ position }) => Object.assign(position!, { epoch: 2 ** 52 }), /"epoch":4503/],
  ['an option out of its range', ({ configuration }) => Object.assign(configuration!, { weightDecay: -1 }), /--weight/],
  ['another seed', ({ configuration }) => Object.assign(configuration!, { seed: 7 }), /log\.jsonl has 42: it/],
  ['a batch of no step', ({ configuration }) => Object.assign(configuration!, { batch: 3 }), /not a multiple/],
])('%s: resumed from the checkpoint before', async (name, change, reason) => {
  let startStep: number | undefined;
  const onStart = (run: { startStep: number }) => (startStep = run.startStep);
  const notices = await noticesOf({ out: copied(name, change), resume: true }, { onStart });
  expect(startStep).toBe(3);
  expect(notices).toEqual([expect.stringMatching(/^skipped a checkpoint: .*step-00000006/)]);
  expect(notices[0]).toMatch(reason);
});

it('an option that breaks a rule is not damage: one given again takes its place', async () => {
  const out = copied('warmup', ({ configuration }) => Object.assign(configuration!, { warmup: 100 }));
  const log = readFileSync(logPath(out), 'utf8');
  writeFileSync(logPath(out), log.replace(/"warmup":\d+(.*),"crc32":"[^"]*"/, '"warmup":100$1'));
  await expect(train({ out, resume: true })).rejects.toThrow(
    /^--warmup 100 is over --steps 8; take a shorter --warmup/,
  );
  expect(await train({ out, resume: true, warmup: 2 })).toMatchObject({ out, steps: 8 });
});

it('options given again are checked with those of the run, not with defaults', async () => {
  const out = copied('total-batch');
  // 96 is a multiple of the run's 1 x 32 tokens, not of 4 x 64.
  expect(await train({ out, resume: true, totalBatch: 96 })).toMatchObject({ out, steps: 8 });
  const refused = train({ out, resume: true, totalBatch: 100, steps: 9 });
  await expect(refused).rejects.toThrow('--total-batch 100 is not a multiple of --batch 1 x --seq 32 = 32 tokens');
});

it('a warmup longer than the epoch that is trained is refused', async () => {
  await expect(train({ ...tinyRun, warmup: 1000, data, out: place.path('long-warmup') })).rejects.toThrow(
    /^--warmup 1000 is over the \d+ steps of one epoch of .*; take a shorter --warmup or give --steps$/,
  );
});

it.each<[string, (text: string) => string, RegExp]>([
  ['the run', (text) => text, /^$/],
  [
    'a later start',
    (text) => text.replace(/"weightDecay": [^,]*/, '"weightDecay": 0.5'),
    /^--weight-decay 0.1, as .*step-00000006 has it, not 0.5 as in .*config.json; give --weight-decay to change it$/,
  ],
  [
    'another model',
    (text) => text.replace(/"seed": 42/, '"seed": 7'),
    /^--seed 42, as .* has it, not 7 as in .*config.json$/,
  ],
  ['no JSON', () => '{', /^the options are those of .*step-00000006: the options file .*config.json cannot be read/],
])('config.json of %s does not change the options in silence', async (name, change, expected) => {
  const out = place.path(`config ${name}`);
  cpSync(place.path('run'), out, { recursive: true });
  writeFileSync(configPath(out), change(readFileSync(configPath(out), 'utf8')));
  expect((await noticesOf({ out, resume: true })).join()).toMatch(expected);
});

it("a start's unused values are not those that new options replace", async () => {
  const out = place.path('longer');
  cpSync(place.path('run'), out, { recursive: true });
  const text = readFileSync(configPath(out), 'utf8');
  writeFileSync(configPath(out), text.replace('"steps": 8', '"steps": 12').replace('"warmup": 2', '"warmup": 3'));
  const notices = await noticesOf({ out, resume: true, tokens: 12 * 32 });
  expect(notices.filter((text) => text.includes('config.json'))).toEqual([]);
});

it('a run with a part of a program resumes without a notice', async () => {
  const options = { ...tinyRun, data, out: place.path('scheduled'), steps: 4, schedule: () => 1e-3 };
  await train({ ...options, stopAfter: 2 });
  expect(await noticesOf({ out: options.out, schedule: options.schedule, resume: true })).toEqual([]);
});

it('config.json is resumed from as the run wrote it, and given with --config in any form', async () => {
  const out = copied('edited');
  // As a run that has saved nothing yet.
  rmSync(checkpointsFolder(out), { recursive: true });
  rmSync(logPath(out));
  const text = readFileSync(configPath(out), 'utf8');
  writeFileSync(configPath(out), text.replace('"seed": 42', '"seed": 43'));
  await expect(train({ out, resume: true })).rejects.toThrow(
    /cannot resume from .*config\.json: it has changed since it was written: its sha256 differs; restore it, or start/,
  );
  const other = await train({ config: configPath(out), out: place.path('other'), steps: 2 });
  expect(readFileSync(configPath(other.out), 'utf8')).toContain('"seed": 43');
});
