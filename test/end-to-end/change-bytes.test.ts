// Changes one byte of a run folder's or its data's files and uses them: resumes the run, reads its log, evaluates its model,
// starts anew. Each change must be noticed, or change nothing that comes out.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { findShards } from '../../src/data/datasets/find-shards.ts';
import { readDataset } from '../../src/data/shards/dataset-file.ts';
import { evaluate } from '../../src/inference/evaluate/evaluate.ts';
import { createModel } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { checkpointsFolder, configPath, logPath } from '../../src/runs/paths.ts';
import { readRun } from '../../src/runs/reader.ts';
import { train } from '../../src/train/train.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { resolveWeights } from '../../src/weights/weights.ts';
import { Workplace } from '../support/cli.ts';
import { parseOptions } from '../support/options.ts';
import { rounds, seed } from '../support/rounds.ts';

/** A use of the files: what came out, and what was said besides. */
type Use = () => Promise<Used>;
interface Used {
  readonly result: unknown;
  readonly notices: readonly string[];
}

interface Target {
  readonly path: string;
  readonly uses: readonly Use[];
  /** Why a change of the byte at `at` may have no effect. */
  harmless?(bytes: Buffer, at: number): string;
}

it('a changed byte changes no result in silence', async () => {
  using place = new Workplace();
  const { targets, restore } = await prepare(place);
  const wanted = new Map<Use, Used>();
  for (const use of targets.flatMap(({ uses }) => uses)) {
    if (wanted.has(use)) continue;
    restore();
    wanted.set(use, await use());
  }
  const random = new Random(seed);
  /** `harmless`: why nothing that came out was another, and how often. `silent`: what else came out, and nothing was said. */
  const reports = targets.map(({ path }) => ({
    ...{ file: path.slice(place.folder.length + 1), noticed: 0 },
    ...{ harmless: new Map<string, number>(), silent: [] as string[] },
  }));
  for (let index = 0; index < 5 * rounds * targets.length; index++) {
    const target = targets[index % targets.length]!;
    const report = reports[index % targets.length]!;
    restore();
    const bytes = readFileSync(target.path);
    const at = Math.floor(random.uniform() * bytes.length);
    const changed = Buffer.from(bytes);
    changed[at] = otherByte(bytes[at]!, random);
    const isOther = await outcome(target, wanted, () => {
      restore();
      writeFileSync(target.path, changed);
    });
    if (isOther === 'noticed') report.noticed++;
    else if (isOther === 'same') {
      const reason = target.harmless?.(bytes, at) ?? 'no reason is known';
      report.harmless.set(reason, (report.harmless.get(reason) ?? 0) + 1);
    } else report.silent.push(`byte ${at}: ${bytes[at]} became ${changed[at]}; ${isOther}`);
    restore();
    writeFileSync(target.path, bytes);
  }
  for (const { file, silent, harmless, noticed } of reports) {
    console.log(file, { noticed, harmless });
    expect(silent, file).toEqual([]);
    expect([...harmless.keys()], file).not.toContain('no reason is known');
    expect(noticed, file).toBeGreaterThan(0);
  }
});

/** Half of the changes keep a digit a digit, a letter a letter: in JSON any other byte is likely to be no JSON. */
function otherByte(byte: number, random: Random): number {
  const below = (count: number) => Math.floor(random.uniform() * count);
  const alike = ['0123456789', 'abcdefghijklmnopqrstuvwxyz'].find((all) => all.includes(String.fromCharCode(byte)));
  const others = alike
    ? [...alike].map((each) => each.charCodeAt(0))
    : Array.from({ length: 8 }, (_, bit) => byte ^ (1 << bit));
  const candidates = random.uniform() < 0.5 ? others : Array.from({ length: 256 }, (_, each) => each);
  const other = candidates.filter((each) => each !== byte);
  return other[below(other.length)]!;
}

/**
 * 'noticed', 'same', or what another result says.
 * @throws Error for what is neither a result nor a refusal in one line
 */
async function outcome({ uses }: Target, wanted: ReadonlyMap<Use, Used>, change: () => void): Promise<string> {
  let outcome = 'same';
  for (const use of uses) {
    change();
    const clean = wanted.get(use)!;
    let used: Used;
    try {
      used = await use();
    } catch (error) {
      if (!(error instanceof Gpt2Error) || error.message.includes('\n')) throw error;
      return 'noticed';
    }
    if (used.notices.some((notice) => !clean.notices.includes(notice))) return 'noticed';
    const [found, expected] = [JSON.stringify(used.result), JSON.stringify(clean.result)];
    if (found !== expected) outcome = `${found.slice(0, 500)} instead of ${expected.slice(0, 500)}`;
  }
  return outcome;
}

const flags =
  '--model custom --layers 1 --channels 16 --heads 2 --context 16 --device cpu --threads 1 --batch 2 --seq 16 --steps 10 --lr 1e-2 --val-every 4 --val-steps 2 --sample-every 0 --save-every 4 --skip-spikes 6';

/** A run of 10 steps, stopped after 8 with checkpoints at 4 and 8, and what uses it. */
async function prepare(place: Workplace): Promise<{ targets: Target[]; restore: () => void }> {
  const data = place.data({ train: [700, 500], val: 300, vocabulary: 100, listed: true });
  const run = place.path('run');
  const clean = place.path('clean');
  await train({ ...parseOptions(flags), data, out: run, stopAfter: 8 });
  cpSync(run, clean, { recursive: true });
  const restore = () => {
    rmSync(run, { recursive: true, force: true });
    rmSync(place.path('new'), { recursive: true, force: true });
    cpSync(clean, run, { recursive: true });
  };
  const trained = async (options: Parameters<typeof train>[0]) => {
    const notices: string[] = [];
    const { out } = await train(options, { onNotice: (text) => notices.push(text) });
    const { files, position } = newestValidCheckpoint(checkpointsFolder(out)).checkpoint!.manifest;
    const { series, events } = readRun(out);
    const done = events.flatMap((event) => (event.event === 'done' ? [event.steps, event.weights, event.skipped] : []));
    return { result: { series, done, files, position }, notices };
  };
  const resumed: Use = () => trained({ out: run, resume: true });
  // As a run that has saved nothing yet: only config.json is left.
  const restarted: Use = () => {
    rmSync(checkpointsFolder(run), { recursive: true });
    rmSync(logPath(run));
    return trained({ out: run, resume: true, stopAfter: 1 });
  };
  const started: Use = () => trained({ ...parseOptions(flags), data, out: place.path('new'), stopAfter: 1 });
  const read: Use = async () => {
    const { series, configuration } = readRun(run);
    return { result: { series, configuration }, notices: [] };
  };
  const evaluated: Use = () => evaluateAll(run, data);

  const checkpoint = join(checkpointsFolder(run), 'step-00000008');
  const inCheckpoint = ['manifest.json', 'model.safetensors', 'optimizer.safetensors'];
  const inData = ['dataset.json', 'random_train_000001.bin', 'random_train_000002.bin', 'random_val.bin'];
  const targets: Target[] = [
    { path: configPath(run), uses: [resumed, restarted] },
    { path: logPath(run), uses: [read, resumed], harmless: harmlessInLog },
    ...inCheckpoint.map((file) => ({ path: join(checkpoint, file), uses: [resumed, evaluated] })),
    ...inData.map((file) => ({ path: join(data, file), uses: [resumed, evaluated, started] })),
  ];
  return { targets, restore };
}

async function evaluateAll(run: string, data: string): ReturnType<Use> {
  const weights = await resolveWeights(run);
  const { vocabularySize = 100, tokenizer = 'gpt2' } = readDataset(data) ?? {};
  using device = Device.open({ kind: 'cpu', threads: 1 });
  const model = createModel(device, weights.model, { B: 2, T: 16, purpose: 'inference' });
  weights.load(model);
  const notices = weights.damaged.map(({ reason }) => reason);
  const losses: number[] = [];
  for (const role of ['train', 'val'] as const) {
    const sizes = { batch: 2, sequence: 16, notice: (text: string) => notices.push(text) };
    losses.push((await evaluate(model, { shards: findShards(data, role), tokenizer, ...sizes })).loss);
  }
  return { result: { losses, vocabularySize }, notices };
}

/** The log's own checksums leave out their names and the last line break. */
function harmlessInLog(bytes: Buffer, at: number): string {
  if (at === bytes.length - 1) return 'the last line break: the last line reads as torn, and no figure is on it';
  const before = bytes.subarray(0, at + 1).toString();
  if (/,"c?r?c?3?2?$/.test(before.slice(0, -1))) return 'the name of a checksum: the line is what it was';
  return 'no reason is known';
}
