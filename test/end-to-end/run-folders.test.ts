// Tests what train does with an existing folder, by how it is started and what stands there: a run goes on or begins
// anew, or is refused in one line and nothing is touched. Nothing goes that no run has made, and no line of a log.
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import { train } from '../../src/train/train.ts';
import { workplace } from '../support/cli.ts';
import { tinyRun } from '../support/tiny-run.ts';

const place = workplace();
let given: TrainOptions;
/** A run of 6 steps that was stopped after 4. */
let stopped: string;
beforeAll(async () => {
  chmodSync(place.folder, 0o755);
  stopped = place.path('stopped');
  given = { ...tinyRun, saveEvery: 2, steps: 6, data: place.data({ vocabulary: 100 }) };
  await train({ ...given, out: stopped, stopAfter: 4 });
});

/** A copy of the run whose checkpoints are changed. */
const runWith =
  (change: (checkpoints: string, out: string) => void = () => {}) =>
  (out: string): void => {
    cpSync(stopped, out, { recursive: true });
    change(join(out, 'checkpoints'), out);
  };
const remove = (path: string) => rmSync(path, { recursive: true });

/** Makes each kind of folder that may stand at --out. */
const folders = {
  'no folder': () => {},
  'empty folder': (out: string) => void mkdirSync(out),
  'a run': runWith(),
  'a run without checkpoints': runWith((checkpoints, out) => {
    remove(checkpoints);
    const lines = readFileSync(join(out, 'log.jsonl'), 'utf8').split('\n');
    place.file(join(out, 'log.jsonl'), lines.filter((line) => !line.includes('"checkpoint"')).join('\n'));
  }),
  'a run, checkpoints renamed': runWith((checkpoints) => {
    for (const name of ['step-00000002', 'step-00000004'])
      renameSync(join(checkpoints, name), join(checkpoints, `${name}.bak`));
  }),
  'a run, checkpoints on a disk that is not mounted': runWith((checkpoints) => {
    remove(checkpoints);
    mkdirSync(checkpoints);
  }),
  'a run, checkpoints a dangling link': runWith((checkpoints) => {
    remove(checkpoints);
    symlinkSync(place.path('unmounted'), checkpoints);
  }),
  'a run, checkpoints unreadable': runWith((checkpoints) => chmodSync(checkpoints, 0)),
  "a run's checkpoints alone": runWith((_, out) => {
    for (const name of ['log.jsonl', 'config.json']) rmSync(join(out, name));
  }),
  'another project, with checkpoints': (out: string) => {
    place.file(join(out, 'train.py'), 'import torch');
    place.file(join(out, 'checkpoints', 'best.pt'), 'weights');
  },
  'a folder of notes': (out: string) => void place.file(join(out, 'notes.txt'), 'of the user'),
  'reports and system files': (out: string) => {
    mkdirSync(join(out, 'lost+found'), { recursive: true });
    for (const name of ['report.html', 'compare.svg', '.DS_Store']) place.file(join(out, name), '');
  },
  'a model of transformers': (out: string) => {
    const config = { architectures: ['GPT2LMHeadModel'], n_layer: 12, dtype: 'float32' };
    place.file(join(out, 'config.json'), JSON.stringify(config));
  },
} satisfies Record<string, (out: string) => void>;
type Folder = keyof typeof folders;

/** How train is started: --resume, the same with notes of the user in the folder, --overwrite, or neither. */
const starts = {
  '--resume': (out) => ({ out, resume: true }),
  '--resume, notes': (out) => ({ out, resume: true }),
  '--overwrite': (out) => ({ ...given, out, overwrite: true }),
  plain: (out) => ({ ...given, out }),
} satisfies Record<string, (out: string) => TrainOptions>;
type Start = keyof typeof starts;

/** The expected outcome: the step that the run begins at, or why it is refused. */
type Outcome = number | RegExp;
const none = /^there is no run to resume in /;
const isRun = /already holds a run: continue it with --resume, replace it with --overwrite, or name another --out$/;
const notes = /holds checkpoints\/notes\.txt, which no run wrote; move it away, or name another --out$/;
const renamed = /holds checkpoints\/step-00000002\.bak, checkpoints\/step-00000004\.bak, which no run wrote; move it/;
const gone =
  /log\.jsonl names checkpoints that are missing from .*: step-00000004, step-00000002; restore them, mount their/;
const baks = 'step-00000002.bak, step-00000004.bak';
const goneAnd = (there: string) => new RegExp(`${gone.source.split(';')[0]} \\(found: ${there}\\); restore them`);
const dangling = /checkpoints is a dangling link to .*unmounted \(ENOENT\); mount the disk, correct the link, or/;
const unreadable = /checkpoints cannot be read: EACCES: .*; make it readable, or name another --out$/;
const alone =
  /holds step-00000002, step-00000004, but no log or configuration of a run: continue from there with --resume/;
const best = /holds checkpoints\/best\.pt, which no run wrote; move it away, or name another --out$/;
const notesAlone = /holds notes\.txt, which no run wrote; move it away, or name another --out$/;
const model = /holds config\.json, which no run wrote; move it away, or name another --out$/;

const table: readonly [Folder, ...ofStarts: readonly [Outcome, Outcome, Outcome, Outcome]][] = [
  ['no folder', none, none, 0, 0],
  ['empty folder', none, none, 0, 0],
  ['a run', 4, 4, 0, isRun],
  ['a run without checkpoints', 0, notes, 0, isRun],
  ['a run, checkpoints renamed', goneAnd(baks), goneAnd(`notes.txt, ${baks}`), renamed, renamed],
  ['a run, checkpoints on a disk that is not mounted', gone, goneAnd('notes.txt'), 0, isRun],
  ['a run, checkpoints a dangling link', dangling, dangling, dangling, dangling],
  ['a run, checkpoints unreadable', unreadable, unreadable, unreadable, unreadable],
  ["a run's checkpoints alone", 4, 4, alone, alone],
  ['another project, with checkpoints', none, none, best, best],
  ['a folder of notes', none, none, notesAlone, notesAlone],
  ['reports and system files', none, none, 0, 0],
  ['a model of transformers', none, none, model, model],
];

/** Every entry of a folder and what is in it, by its path. */
function contents(folder: string, path = '.'): Map<string, string> {
  const entry = join(folder, path);
  const stats = lstatSync(entry, { throwIfNoEntry: false });
  if (!stats) return new Map();
  if (stats.isSymbolicLink()) return new Map([[path, `-> ${readlinkSync(entry)}`]]);
  if (!stats.isDirectory()) return new Map([[path, readFileSync(entry, 'latin1')]]);
  const names = (stats.mode & 0o777) === 0 ? [] : readdirSync(entry);
  return new Map([[path, 'folder'], ...names.flatMap((name) => [...contents(folder, join(path, name))])]);
}

/** Files that a new run may remove. */
const isOfRuns = (path: string) => /^(log\.jsonl|config\.json|checkpoints\/step-\d{8}(\/.*)?)$/.test(path);

/** Notes of the user, where a folder can have them. */
function addNotes(out: string): void {
  place.file(join(out, 'notes.txt'), 'of the user');
  const checkpoints = join(out, 'checkpoints');
  const isFolder = lstatSync(checkpoints, { throwIfNoEntry: false })?.isDirectory() ?? true;
  if (isFolder && readdirSync(out).length > 1) place.file(join(checkpoints, 'notes.txt'), 'of the user');
}

/** As `root` would be let in everywhere, it is done as nobody. */
async function asNobody<R>(work: () => Promise<R>): Promise<R> {
  if (process.geteuid?.() !== 0) return work();
  process.seteuid!(65534);
  try {
    return await work();
  } finally {
    process.seteuid!(0);
  }
}

async function start(options: TrainOptions): Promise<{ code: number; said: string; from: number | undefined }> {
  const said: string[] = [];
  let from: number | undefined;
  const onStart = ({ startStep }: { startStep: number }) => {
    from = startStep;
  };
  try {
    await train(options, { onNotice: (text) => said.push(text), onStart });
    return { code: 0, said: said.join('\n'), from };
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    return { code: error.exitCode, said: error.message, from };
  }
}

describe.each(table)('%s', (folder, ...outcomes) => {
  const cases = (Object.keys(starts) as Start[]).map((how, index) => [how, outcomes[index]!] as const);
  it.each(cases)('%s', async (how, outcome) => {
    const out = place.path(`${folder}, ${how}`.replaceAll(/\W+/g, '-'));
    folders[folder](out);
    if (how === '--resume, notes') addNotes(out);
    const before = contents(out);
    const isClosed = folder === 'a run, checkpoints unreadable';
    const begin = () => start(starts[how](out));
    const { code, said, from } = await (isClosed ? asNobody(begin) : begin());
    const after = contents(out);
    if (isClosed) chmodSync(join(out, 'checkpoints'), 0o755);
    if (outcome instanceof RegExp) {
      expect([code, from, said]).toEqual([1, undefined, expect.stringMatching(outcome)]);
      expect(after).toEqual(before);
      return;
    }
    expect([code, from], said).toEqual([0, outcome]);
    expect([...after.keys()]).toContain('checkpoints/step-00000006');
    for (const [path, content] of before) if (!isOfRuns(path)) expect([path, after.get(path)]).toEqual([path, content]);
    const log = before.get('log.jsonl');
    if (outcome === 0) expect(after.get('log-before-1.jsonl')).toBe(log);
    if (log === undefined) return;
    if (outcome === 0) expect(said).toContain(`the previous log is kept as ${join(out, 'log-before-1.jsonl')}`);
    // The steps that its checkpoint knows: the line of a checkpoint is written after it.
    else for (const line of log.split('\n').slice(0, 1 + 4)) expect(after.get('log.jsonl')).toContain(line);
  });
});

it('each log that makes place gets the next number', async () => {
  const out = place.path('again');
  folders['a run'](out);
  rmSync(join(out, 'log.jsonl'));
  const logs = ['first', 'second'].map((device) => `{"event":"run","device":"${device}"}\n`);
  place.file(join(out, 'log-before-4.jsonl'), 'of before');
  for (const log of logs) {
    place.file(join(out, 'log.jsonl'), log);
    expect(await start(starts['--overwrite'](out))).toMatchObject({ code: 0, from: 0 });
  }
  const names = [4, 5, 6].map((number) => `log-before-${number}.jsonl`);
  expect(readdirSync(out).filter((name) => name.startsWith('log-before'))).toEqual(names);
  expect(names.map((name) => readFileSync(join(out, name), 'utf8'))).toEqual(['of before', logs[0], logs[1]]);
});
