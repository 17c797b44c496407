// `train`: reads options from the command line, runs training, shows its progress.
import { Command, Option } from 'commander';
import { Gpt2Error, ToldError } from '../errors.ts';
import {
  launchRanks,
  type OptionName,
  type OptionRow,
  optionTable,
  placeFromEnvironment,
  planRun,
  type RunDescription,
  readOption,
  stopWithLauncher,
  type TrainingPlan,
  type TrainOptions,
  train,
  wantedRanks,
  withOptionsFile,
} from '../index.ts';
import { formatBytes, Progress } from './progress.ts';

const examples = `
Examples:
  npm run train -- --steps 100                       GPT-2 of the device's default size on data/tinyshakespeare
  npm run train -- --model d6 --steps 400 --batch 4 --seq 64 --lr 6e-4 --warmup 40 \\
    --final-lr-frac 0.1 --weight-decay 0.1 --val-every 50 --out runs/d6
  npm run train -- --out runs/d6 --resume            continue it after Ctrl-C
  npm run train -- --data data/own-source --steps 50
                                                     no download needed: prepro own-source
  npm run train -- --model d24 --total-batch 524288 --batch auto --dry-run
                                                     what it would take, and the micro-batch that fits
  npm run train -- --gpus 2 --batch 64               on two GPUs, a process each
  npm run train -- --model runs/d12 --context 512 --data data/own-source --out runs/tuned
                                                     fine-tune: at the rate nanoGPT tunes GPT-2 at, held constant
  npm run train -- --steps 400 --serve               the run as it goes, at http://127.0.0.1:8042/

Ctrl-C, SIGTERM, SIGHUP or SIGQUIT finishes the step, saves and exits. So does a batch system's warning: SIGUSR1, SIGUSR2,
SIGXCPU or SIGALRM. --resume continues from there, bit for bit.
`;

/**
 * @param interruption called when the run starts; gives the AbortSignal that stop signals abort. `quiet` leaves it to another
 * process to say so
 */
export function trainCommand(interruption: (how?: 'quiet') => AbortSignal): Command {
  const command = new Command('train').description('Train a GPT-2').addHelpText('after', examples);
  // The table's texts say choices, with what they mean.
  command.configureHelp({ optionDescription: ({ description }) => description });
  for (const [name, row] of Object.entries(optionTable) as [OptionName, OptionRow][]) {
    const shown = row.default === undefined || row.default === false ? row.defaultText : String(row.default);
    const help = shown === undefined ? row.help : `${row.help} (default: ${shown})`;
    const argument = row.alone === undefined ? `<${row.argument}>` : `[${row.argument}]`;
    const option = new Option(row.argument ? `${row.flag} ${argument}` : row.flag, help).preset(row.alone);
    if (Array.isArray(row.read)) option.choices(row.read);
    command.addOption(row.argument ? option.argParser((text) => readOption(name, text)) : option);
  }
  return command.action(async (flags: Record<string, unknown>) => {
    const options = withOptionsFile(optionsFromFlags(flags));
    const onNotice = (text: string) => (options.json ? process.stderr : process.stdout).write(`${text}\n`);
    if (options.dryRun) return tellPlan(planRun(options, onNotice), options.json === true);
    const place = placeFromEnvironment();
    const ranks = place ? place.ranks : wantedRanks(options);
    if (!place && ranks > 1) {
      const code = await launchRanks(ranks, interruption('quiet'));
      if (code !== 0) throw new ToldError(code);
      return;
    }
    stopWithLauncher();
    // One voice is enough; the others have files of their own.
    if (place && place.rank > 0) {
      await train(options, { place, signal: interruption('quiet') });
      return;
    }
    let progress: Progress | undefined;
    try {
      await train(options, {
        place,
        signal: interruption(),
        onStart: (run) => {
          if (options.json) return;
          progress = new Progress(run.steps);
          progress.line(describe(run));
        },
        onNotice,
        onEvent: (event, { remaining, json }) => {
          if (options.json) process.stdout.write(json);
          else progress?.event(event, remaining);
        },
      });
    } finally {
      progress?.close();
    }
  });
}

/** What is said before step 0. */
function describe(run: RunDescription): string {
  const from = run.startStep > 0 ? ` from step ${run.startStep}` : '';
  return [
    `${run.model}: ${run.parameters.toLocaleString('en-US')} parameters, ${formatBytes(run.memoryBytes)}, on ${run.device}`,
    `${run.steps} ${run.steps === 1 ? 'step' : 'steps'} of ${run.tokensPerStep.toLocaleString('en-US')} tokens${from}; saves to ${run.out}`,
  ].join('\n');
}

/** What --dry-run says. @throws Gpt2Error if the run would not fit */
function tellPlan(plan: TrainingPlan, json: boolean): void {
  const text = json ? JSON.stringify({ ...plan, memory: Object.fromEntries(plan.memory) }) : planText(plan);
  process.stdout.write(`${text}\n`);
  if (plan.refusal !== undefined) throw new Gpt2Error(plan.refusal);
}

function planText(plan: TrainingPlan): string {
  const { model, parameters, device, batch, sequence, accumulation, ranks, recompute, memory, available } = plan;
  const { savingMemory, availableHost } = plan;
  const total = [...memory.values()].reduce((sum, bytes) => sum + bytes, 0);
  const rows = [...memory, ['total', total] as const, ['free', available] as const];
  const width = Math.max(...rows.map(([kind]) => kind.length));
  const table = rows.map(([kind, bytes]) => `  ${kind.padEnd(width)}  ${formatBytes(bytes).padStart(9)}`);
  const number = (value: number) => value.toLocaleString('en-US');
  return [
    `${model}: ${number(parameters)} parameters, on ${device}`,
    `${number(batch * sequence * accumulation * ranks)} tokens a step = batch ${batch} x seq ${sequence} x accumulation ${accumulation} x ranks ${ranks}; recompute ${recompute}`,
    ...table,
    ...(savingMemory > 0
      ? [`host memory for saving: ${formatBytes(savingMemory)} besides, of ${formatBytes(availableHost)} free`]
      : []),
  ].join('\n');
}

/** commander keys flags by their own camel case (`--total-batch`: totalBatch, `--lr`: lr); the table knows their names. */
function optionsFromFlags(flags: Record<string, unknown>): TrainOptions {
  const options: Record<string, unknown> = {};
  for (const [name, row] of Object.entries(optionTable)) {
    const key = row.flag.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (flags[key] !== undefined) options[name] = flags[key];
  }
  return options as TrainOptions;
}
