// The command `train`: reads the options, trains in this process or starts one process per GPU, and shows the progress.
import { Command } from 'commander';
import { Gpt2Error, placeFromEnvironment, readRun, type TrainingPlan } from '../index.ts';
import {
  asTyped,
  attempt,
  customModel,
  ExitError,
  epochsText,
  formatBytes,
  formatCount,
  type LivePage,
  launchRanks,
  modelPaths,
  nameSources,
  type OptionName,
  optionNames,
  optionParts,
  outlookText,
  outlookWarnings,
  planSources,
  presetNames,
  type RunDescription,
  resolveSources,
  runPresetNames,
  type Sources,
  shellWord,
  stopWithLauncher,
  trainSources,
  wantedRanks,
} from '../program.ts';
import { isPart } from './child.ts';
import { flagsOf, optionsFromFlags, tableOption, tableOptions } from './option-of-table.ts';
import { clearStatus, showBytes, showProgress } from './progress.ts';
import { nextCommands, sweep, sweepOption } from './sweep.ts';

const examples = `
--model takes one of
  ${presetNames.join(', ')}
  ${customModel}: the sizes of --layers, --channels, --heads and --context
  weights to start from: ${modelPaths}

--preset takes one of
  ${runPresetNames.join('\n  ')}

If several sources set an option, the command line overrides --config, --config overrides --preset, --preset overrides --recipe.

--recompute changes no bit of the result: gelu halves the memory of activations and is about 10% slower, block leaves
a fraction of it and is about 30% slower.

Examples:
  npm run train -- --steps 100                       GPT-2 of the device's default size on data/tinyshakespeare
  npm run train -- --preset llmc-d6-fp32-b4-t64 --out runs/d6
                                                     the run of a curve that llm.c recorded; compare checks it
  npm run train -- --out runs/d6 --resume            continue it after Ctrl-C
  npm run train -- --data data/own-source --steps 50
                                                     no download needed: prepro own-source
  npm run train -- --model d24 --total-batch 524288 --steps 1000 --batch auto --dry-run
                                                     print time, epochs, memory, and the micro-batch that fits
  npm run train -- --model d36 --batch 16 --dry-run --for h100
                                                     the same for a GPU that is not here
  npm run train -- --gpus 2 --batch 64               on two GPUs, one process each
  npm run train -- --model runs/d12 --context 512 --data data/own-source --out runs/tuned
                                                     fine-tune at nanoGPT's rate for GPT-2, held constant
  npm run train -- --model openai-community/gpt2 --data data/own-source --out runs/tuned
                                                     fine-tune the pretrained GPT-2, downloaded once
  npm run train -- --steps 400 --sweep lr=1e-4,3e-4 --sweep seed=1,2 --out runs/sweep
                                                     four runs and their ranking; again: skips finished runs, resumes others
  npm run train -- --preset shakespeare-laptop       a ready-made run; others: npm run gpt2 -- presets
  npm run train -- --recipe modern --tokens 1.7B --data data/fineweb10B --batch auto
                                                     a modern GPT with Muon (docs/recipe.md); --dry-run says what it sets
  npm run train -- --steps 400 --serve               watch the run at http://127.0.0.1:8042/

Ctrl-C, SIGTERM, SIGHUP or SIGQUIT finishes the step, saves and exits; a step of over 5 s ends after its micro-batch and is
computed again by --resume. A batch system's warning does the same: SIGUSR1, SIGUSR2,
SIGXCPU or SIGALRM. --resume continues from there, bit for bit.
`;

/** Called when a run starts; returns the AbortSignal that stop signals such as Ctrl-C abort. `quiet`: another process reports the stop. */
type Interruption = (how?: 'quiet') => AbortSignal;

export function trainCommand(interruption: Interruption): Command {
  const command = new Command('train').description('Train a GPT-2').addHelpText('after', examples);
  const all = Object.entries(optionParts).flatMap(([heading, rows]) =>
    Object.entries(rows).map(([name, { frequent }]) => ({ name: name as OptionName, frequent, heading })),
  );
  for (const { name } of all.filter(({ frequent }) => frequent)) {
    command.addOption(tableOption(name).helpGroup('Most used:'));
  }
  for (const { name, heading } of all.filter(({ frequent }) => !frequent)) {
    for (const option of tableOptions(name)) command.addOption(option.helpGroup(heading));
  }
  command.addOption(sweepOption().helpGroup(Object.keys(optionParts).at(-1)!));
  return command.action(async (flags: Record<string, unknown>) => {
    const specs = flags.sweep as readonly string[] | undefined;
    const sources = resolveSources(optionsFromFlags(optionNames, flags));
    try {
      if (specs) await sweep(sources, specs, interruption);
      else await start(sources, interruption);
    } catch (error) {
      throw nameSources(error, sources);
    }
  });
}

/** Trains in this process, alone or as one rank of several; with --gpus, starts a process per rank instead. */
async function start(sources: Sources, interruption: Interruption): Promise<void> {
  const { options } = sources;
  const notice = (text: string) => {
    clearStatus();
    (options.json ? process.stderr : process.stdout).write(`${text}\n`);
  };
  const onProgress = showBytes();
  if (options.dryRun) return printPlan(await planSources(sources, { notice, onProgress }), options.json === true);
  const place = placeFromEnvironment();
  const ranks = place ? 1 : wantedRanks(options);
  stopWithLauncher();
  if (ranks > 1) return launchRanks(ranks, interruption('quiet'));
  const command = process.argv.slice(2);
  // Only rank 0 prints to the terminal; every other rank writes to a separate log file.
  if (place && place.rank > 0) {
    await trainSources(sources, { place, command, signal: interruption('quiet') }).catch((error) => {
      throw error.isPrinted ? new ExitError(error.exitCode) : error;
    });
    return;
  }
  let progress: ReturnType<typeof showProgress> | undefined;
  let page: LivePage | undefined;
  const signal = interruption();
  try {
    const { out } = await trainSources(sources, {
      ...{ place, command, signal, onNotice: notice, onProgress },
      onStart: (run) => {
        if (options.json) return;
        progress = showProgress(run);
        progress.line(describe(run));
      },
      onOutlook: (outlook) => [outlookText(outlook), ...outlookWarnings(outlook)].forEach(notice),
      onMicroBatch: (done, all) => progress?.microBatch(done, all),
      onPage: (kept) => {
        page = kept;
      },
      onEvent: (event, { remaining, json }) => {
        if (options.json) process.stdout.write(json);
        else progress?.event(event, remaining);
      },
    });
    clearStatus();
    if (!options.json) process.stdout.write(asTyped(endText(out)));
    if (page && !signal.aborted && !isPart()) await serveWatched(page, interruption('quiet'), notice);
  } finally {
    clearStatus();
    page?.close();
  }
}

/** Keeps serving the live page of a finished run until the page has no viewer, or until `signal` is aborted. */
async function serveWatched(page: LivePage, signal: AbortSignal, notice: (text: string) => void): Promise<void> {
  if (!(await page.closeUnwatched())) return;
  notice(`the page stays at ${page.url} while it is watched; Ctrl-C ends it`);
  if (signal.aborted) page.close();
  signal.addEventListener('abort', page.close);
  // A failure of the page is only a notice, because the run itself succeeded.
  await page.ended().catch(({ message }: Error) => notice(message));
}

/** The text that `train` prints before the first step. */
function describe(run: RunDescription): string {
  const from = run.startStep > 0 ? ` from step ${run.startStep}` : '';
  const epochs = run.epochs > 1 ? `, ${epochsText(run.epochs)}` : '';
  const parts = run.accumulation > 1 ? `, ${formatCount(run.accumulation)} micro-batches each` : '';
  return [
    `${run.model}: ${formatCount(run.parameters)} parameters, ${formatBytes(run.memoryBytes)}, on ${run.device}`,
    `${run.steps} ${run.steps === 1 ? 'step' : 'steps'} of ${formatCount(run.tokensPerStep)} tokens${parts}${epochs}${from}, ${run.rate}; saves to ${run.out}`,
  ].join('\n');
}

/**
 * The last lines of a finished run: its losses, its folder and, unless quickstart or a sweep started it, the next commands. Empty if
 * steps are left. If a line of the log is damaged, returns the error about the line instead of throwing, because the run has ended.
 */
function endText(out: string): string {
  const found = attempt(() => readRun(out));
  if (found instanceof Gpt2Error) return `${found.message}\n`;
  const { events, series } = found;
  if (events.at(-1)?.event !== 'done') return '';
  const val = [...series.val];
  const loss = ([step, value]: readonly [number, number]) => `${value.toFixed(4)} at step ${step}`;
  const best = val.reduce((least, each) => (each[1] < least[1] ? each : least), val[0]!);
  const losses = val.length > 0 ? [`val loss ${loss(val.at(-1)!)}, best ${loss(best)}`] : [];
  return [...losses, `run: ${out}`, ...(isPart() ? [] : nextCommands(out, shellWord(out)))]
    .map((line) => `${line}\n`)
    .join('');
}

/** Prints the plan of --dry-run. @throws Gpt2Error if the run would not fit */
function printPlan(plan: TrainingPlan, json: boolean): void {
  const text = json ? JSON.stringify({ ...plan, memory: Object.fromEntries(plan.memory) }) : planText(plan);
  process.stdout.write(`${text}\n`);
  if (plan.refusal !== undefined) throw new Gpt2Error(plan.refusal);
}

/** A line for each option that a recipe sets: the flag, and the origin of its value. */
function recipeTable(choices: NonNullable<TrainingPlan['recipe']>['choices']): string[] {
  const lines = choices.map(({ name, value, origin }) => [flagsOf({ [name]: value }).join(' '), origin] as const);
  const width = Math.max(...lines.map(([flag]) => flag.length));
  return lines.map(([flag, origin]) => `  ${flag.padEnd(width)}  ${origin}`);
}

function planText(plan: TrainingPlan): string {
  const { model, parameters, device, batch, sequence, accumulation, ranks, recompute, memory, available } = plan;
  const { reserve, savingMemory, availableHost, preset, recipe } = plan;
  const kinds = [...memory, ...(reserve > 0 ? [['kernels, graphs', reserve] as const] : [])];
  const total = kinds.reduce((sum, [, bytes]) => sum + bytes, 0);
  const rows = [...kinds, ['total', total] as const, ['free', available] as const];
  const width = Math.max(...rows.map(([kind]) => kind.length));
  const table = rows.map(([kind, bytes]) => `  ${kind.padEnd(width)}  ${formatBytes(bytes).padStart(9)}`);
  return [
    ...(preset ? [`preset ${preset.name}: ${flagsOf(preset.options).join(' ')}`] : []),
    ...(recipe ? [`recipe ${recipe.name}; the origin is ${recipe.source}:`, ...recipeTable(recipe.choices)] : []),
    `${model}: ${formatCount(parameters)} parameters, on ${device}`,
    `${formatCount(batch * sequence * accumulation * ranks)} tokens a step = batch ${batch} x seq ${sequence} x accumulation ${accumulation} x ranks ${ranks}; recompute ${recompute}`,
    ...table,
    ...(savingMemory > 0
      ? [`host memory for saving: ${formatBytes(savingMemory)} in addition, of ${formatBytes(availableHost)} free`]
      : []),
    outlookText(plan),
    ...plan.warnings,
  ].join('\n');
}
