// `train`: reads options from the command line, runs training, shows its progress.
import { Command, Option } from 'commander';
import {
  type OptionName,
  type OptionRow,
  optionTable,
  type RunDescription,
  readOption,
  type TrainOptions,
  train,
} from '../index.ts';
import { formatBytes, Progress } from './progress.ts';

const examples = `
Examples:
  npm run train -- --steps 100                       GPT-2 of the device's default size on data/tinyshakespeare
  npm run train -- --model d6 --steps 400 --batch 4 --seq 64 --lr 6e-4 --warmup 40 \\
    --final-lr-frac 0.1 --weight-decay 0.1 --val-every 50 --out runs/d6
  npm run train -- --out runs/d6 --resume            continue it after Ctrl-C
  npm run train -- --data data/own-source --steps 50 no download needed: prepro own-source

Ctrl-C (or SIGTERM) finishes the step, saves and exits; --resume continues from there, bit for bit.
`;

/** @param interruption called when the run starts; gives the signal that Ctrl-C and SIGTERM abort */
export function trainCommand(interruption: () => AbortSignal): Command {
  const command = new Command('train').description('Train a GPT-2').addHelpText('after', examples);
  for (const [name, row] of Object.entries(optionTable) as [OptionName, OptionRow][]) {
    const shown = row.default === undefined || row.default === false ? row.defaultText : String(row.default);
    const help = shown === undefined ? row.help : `${row.help} (default: ${shown})`;
    const option = new Option(row.argument ? `${row.flag} <${row.argument}>` : row.flag, help);
    command.addOption(row.argument ? option.argParser((text) => readOption(name, text)) : option);
  }
  return command.action(async (flags: Record<string, unknown>) => {
    const options = optionsFromFlags(flags);
    let progress: Progress | undefined;
    try {
      await train(options, {
        signal: interruption(),
        onStart: (run) => {
          if (options.json) return;
          progress = new Progress(run.steps);
          progress.line(describe(run));
        },
        onNotice: (text) => (options.json ? process.stderr.write(`${text}\n`) : process.stdout.write(`${text}\n`)),
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
    `${run.steps} steps of ${run.tokensPerStep.toLocaleString('en-US')} tokens${from}; saves to ${run.out}`,
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
