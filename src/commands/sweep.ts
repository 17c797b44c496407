// `train --sweep`: trains with every combination of option values, each run in a separate process and folder, and ranks the runs.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { Option } from 'commander';
import { Device, Gpt2Error, placeFromEnvironment, readRun, type TrainOptions } from '../index.ts';
import {
  askedSteps,
  asTyped,
  attempt,
  checkRuns,
  completeOptions,
  describeRanking,
  didYouMean,
  ExitError,
  endOfRun,
  firstWords,
  flagNamed,
  gpt2Error,
  gpuFields,
  holdsRun,
  isCompared,
  optionNamed,
  optionRows,
  orElse,
  pairRuns,
  rankRuns,
  readValue,
  recordedNames,
  recordedValue,
  resolveSources,
  runToResume,
  type Sources,
  selectKind,
  shellWord,
  timeName,
  usageError,
  withGiven,
} from '../program.ts';
import { runPart } from './child.ts';
import { flagsOf, repeated, trainArguments } from './option-of-table.ts';
import { jsonLine, notice } from './output.ts';
import { showBytes } from './progress.ts';

const sweepHelp = 'train with each value, as lr=1e-4,3e-4; repeatable: all combinations';
export const sweepOption = (): Option => new Option('--sweep <NAME=VALUES>', sweepHelp).argParser(repeated);

/** Suggested commands after training. @param run the best run, to sample from @param compared runs to compare, quoted for a shell */
export function nextCommands(run: string | undefined, compared: string): string[] {
  if (run === undefined) return [`next: npm run compare ${compared}`];
  const prompt = orElse(undefined, () => firstWords(readRun(run).configuration.data));
  return [
    `next: npm run sample -- --model ${shellWord(run)}${prompt ? ` --prompt ${shellWord(prompt)}` : ''}`,
    `      npm run compare ${compared}`,
  ];
}

interface SweptRun {
  /** The run's values, also the name of its folder: "lr=1e-4,seed=1". */
  readonly name: string;
  readonly options: TrainOptions & { readonly out: string };
}

/**
 * Trains all combinations, one at a time or one per GPU, and prints their ranking. Without `overwrite`, finished runs in the folder
 * `out` are skipped and unfinished runs are resumed.
 * @param specs values of --sweep, such as "lr=1e-4,3e-4"
 * @throws UsageError before any run starts; Gpt2Error after the last run, with the names of failed runs
 */
export async function sweep(
  { asked, options }: Sources,
  specs: readonly string[],
  interruption: (how: 'quiet') => AbortSignal,
) {
  if (placeFromEnvironment()) throw usageError`--sweep starts its runs itself: run it without a launcher`;
  runToResume(options);
  const out = options.out ?? join('runs', `sweep-${timeName()}`);
  if (holdsRun(out)) {
    throw usageError`${out} already holds a run: name another folder for the sweep with --out`;
  }
  const runs = combine(asked, specs, out);
  const kinds = runs.map((run) => selectKind(run.options.device ?? 'auto'));
  for (const [index, run] of runs.entries()) completeOptions(run.options, kinds[index]!);
  const unfinished = runs.filter((run) => options.overwrite || !isFinished(run));
  const starting = unfinished.map((run) => run.options);
  const models = await checkRuns(starting, { notice, onProgress: showBytes() });
  const left = unfinished.map((run, index) => ({ ...run, options: { ...run.options, model: models[index] } }));
  if (!options.json) {
    process.stdout.write(`${runs.length} runs in ${out}, ${runs.length - left.length} of them finished before\n`);
  }
  checkDtypes(left);
  const signal = interruption('quiet');
  const failures: string[] = [];
  const gpus = kinds.includes('cuda') ? gpusOf(runs) : [undefined];
  const next = left.values();
  await Promise.all(
    gpus.map(async (gpu, slot) => {
      for (const run of next) {
        if (signal.aborted) return;
        const end = await train(run, { gpu, slot, isShared: gpus.length > 1, signal });
        if (end !== 0) failures.push(`${run.name} ended with ${end}`);
      }
    }),
  );
  if (signal.aborted) {
    notice(`the same command with --out ${shellWord(out)} continues the sweep`);
    throw new ExitError(Number(signal.reason));
  }
  if (options.dryRun) return;
  const folders = runs.map((run) => run.options.out);
  const isRun = (folder: string) => !(attempt(() => readRun(folder)) instanceof Gpt2Error);
  const ranked = rankRuns(pairRuns(folders.filter(isRun)).runs);
  if (options.json) process.stdout.write(jsonLine({ out, ...ranked, failures }));
  else if (ranked.ranking.length > 0) {
    const best = ranked.dataSets === 1 ? ranked.ranking[0]!.run : undefined;
    const lines = [describeRanking(ranked), ...nextCommands(best, `${shellWord(out)}/*`)];
    process.stdout.write(asTyped(`${lines.join('\n')}\n`));
  }
  if (failures.length === 0) return;
  throw gpt2Error`${failures.length} of ${runs.length} runs failed: ${failures.join('; ')}; the same command with --out ${shellWord(out)} tries them again`;
}

/** @throws Gpt2Error if a device lacks the dtype of its runs */
function checkDtypes(runs: readonly SweptRun[]): void {
  const distinct = new Map(runs.map(({ options }) => [`${options.device} ${options.dtype}`, options]));
  for (const options of distinct.values()) {
    const { device = 'auto', dtype } = options;
    if (selectKind(device) === 'cpu') Device.open({ kind: 'cpu', dtype }).close();
    else if (dtype === 'fp8') {
      // A supported GPU may lack only fp8. A child process checks this: in this process a CUDA context would stay open for the sweep.
      const train = trainArguments({ ...options, serve: undefined, dryRun: true, json: true });
      const { status, stderr } = spawnSync(process.execPath, train);
      const last = String(stderr).trim().split('\n').at(-1);
      if (status !== 0 && last) throw new Gpt2Error(last);
    }
  }
}

/** The runs of every combination, the last option varying fastest. Resolves the recipe for each run: a recipe may depend on the values. */
function combine(asked: TrainOptions, specs: readonly string[], out: string): SweptRun[] {
  const axes = specs.map(readAxis);
  const repeated = axes.find(({ option }, index) => axes.findIndex((other) => other.option === option) < index);
  if (repeated) throw usageError`--sweep names ${repeated.name} twice: give its values once, with commas`;
  const set = axes.find(({ option }) => asked[option] !== undefined);
  if (set) throw usageError`--sweep ${set.name} and --${set.name} exclude each other: give one of them`;
  let runs: { names: string[]; values: TrainOptions }[] = [{ names: [], values: {} }];
  for (const { option, name, values } of axes) {
    runs = runs.flatMap((run) =>
      values.map(({ text, value }) => ({
        // Replace slashes: the name becomes a folder's name, in which a slash would make a nested folder.
        names: [...run.names, `${name}=${text.replaceAll('/', '_')}`],
        values: { ...run.values, [option]: value },
      })),
    );
  }
  return runs.map(({ names, values }) => {
    const name = names.join(',');
    const options = resolveSources(withGiven(asked, values)).options;
    const tensorboard = options.tensorboard && join(options.tensorboard, name);
    const resume = options.overwrite ? false : 'auto';
    return { name, options: { ...options, tensorboard, resume, out: join(out, name) } };
  });
}

/** Parses "lr=1e-4,3e-4": an option (its flag or its name in config.json) and its values. @throws UsageError */
function readAxis(spec: string) {
  const [, key = '', list = ''] = /^([^=]*)=(.*)$/s.exec(spec) ?? [];
  const option = optionNamed(key);
  if (!option || !recordedNames.some((name) => name === option)) {
    const flags = recordedNames.map((name) => [name, flagNamed(name).slice(2)] as const);
    const spellings = new Map(flags.flatMap(([name, flag]) => [flag, name].map((each) => [each, flag])));
    const hint = didYouMean(key, spellings, 'train --help lists the options');
    throw usageError`--sweep takes NAME=VALUE,VALUE with an option of train that config.json records, not ${JSON.stringify(spec)}; ${hint}`;
  }
  const row = optionRows[option];
  const values = list.split(',').map((text) => {
    const isSwitch = row.type === 'switch' && /^(true|false)$/.test(text);
    return { text, value: readValue(row, isSwitch ? text === 'true' : text) };
  });
  const name = flagNamed(option).slice(2);
  if (new Set(values.map(({ value }) => value)).size < values.length) {
    throw usageError`--sweep ${spec} has a value of ${name} twice: give each once`;
  }
  return { option, name, values };
}

/** Whether the run in the combination's folder has done all steps. @throws Gpt2Error if the run was trained with other options */
function isFinished({ options }: SweptRun): boolean {
  const record = attempt(() => readRun(options.out));
  if (record instanceof Gpt2Error || endOfRun(record).state !== 'finished') return false;
  const { configuration } = record;
  // All options must be equal except `model`, because a model has several names, and `steps`, because a resume may add steps.
  const fixed = recordedNames.filter((name) => isCompared(name) && name !== 'model' && name !== 'steps');
  for (const name of fixed) {
    const [value, was] = [options[name], recordedValue(configuration, name)];
    if (value === undefined || value === 'auto' || value === was) continue;
    throw gpt2Error`${options.out} was trained with ${flagNamed(name)} ${was}, not ${value}; name another --out, or give --overwrite`;
  }
  const steps = askedSteps(options, configuration.totalBatch);
  return steps === undefined || steps === configuration.steps;
}

/** Trains one combination in a child process. @returns its exit code, or the signal that killed it */
async function train(
  { name, options }: SweptRun,
  { gpu, slot, isShared, signal }: { gpu: string | undefined; slot: number; isShared: boolean; signal: AbortSignal },
): Promise<number | string> {
  const { json, serve } = options;
  const args = flagsOf({ ...options, serve: serve ? serve + slot : serve });
  if (!json) process.stdout.write(`${name}\n`);
  // JSON lines of several runs are mixed on stdout, so each line gets a field `run` with its run's folder.
  const nameRun = (line: string) =>
    json ? line.replace('{', `{"run":${JSON.stringify(options.out)},`) : `${name}: ${line}`;
  return runPart(['train', ...args], {
    signal,
    env: gpu === undefined ? {} : { CUDA_VISIBLE_DEVICES: gpu },
    // A run that trains alone writes to this terminal directly, so it can show its status line.
    ...((isShared || json) && {
      onOutput: (stdout, stderr) => {
        passLines(stdout, process.stdout, nameRun);
        passLines(stderr, process.stderr, (line) => `${name}: ${line}`);
      },
    }),
  });
}

function passLines(from: Readable, to: Writable, change: (line: string) => string): void {
  createInterface({ input: from }).on('line', (line) => to.write(`${change(line)}\n`));
}

/** The GPUs in CUDA_VISIBLE_DEVICES, or all; each trains one run at a time. [undefined]: runs choose GPUs, so one run trains at a time. */
function gpusOf(runs: readonly SweptRun[]): (string | undefined)[] {
  const choosesGpus = ({ options: { device = 'auto', ranks = 1 } }: SweptRun) => ranks > 1 || device.includes(':');
  if (runs.some(choosesGpus)) return [undefined];
  const visible = process.env.CUDA_VISIBLE_DEVICES;
  if (visible) return visible.split(',');
  return gpuFields('index') ?? [undefined];
}
