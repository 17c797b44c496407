// Assembles the command-line program that cli.ts runs: the commands, one file each in this folder, and the settings they share.
import { existsSync } from 'node:fs';
import { type Argument, Command, type Option } from 'commander';
import { asTyped, checkValue, didYouMean, isCompiled, plain, programVersion, shellWord } from '../program.ts';
import { benchCommand } from './bench.ts';
import { compareCommand } from './compare.ts';
import { courseCommand } from './course.ts';
import { doctorCommand } from './doctor.ts';
import { evalCommand } from './eval.ts';
import { exportCommand } from './export.ts';
import { kernelCommand } from './kernel.ts';
import { namesOf, refuseKeptFlags } from './npm-flags.ts';
import { optionMeant } from './option-of-table.ts';
import { preproCommand } from './prepro.ts';
import { presetsCommand } from './presets.ts';
import { quickstartCommand } from './quickstart.ts';
import { replayCommand } from './replay.ts';
import { reportCommand } from './report.ts';
import { runsCommand } from './runs.ts';
import { sampleCommand } from './sample.ts';
import { tokenizerCommand } from './tokenizer.ts';
import { trainCommand } from './train.ts';

/** @param interruption called when a run starts; returns the AbortSignal that is aborted by Ctrl-C and other stop signals */
export function program(interruption: (how?: 'quiet') => AbortSignal): Command {
  const root = new Command('gpt2')
    .description('GPT-2 training from TypeScript')
    .version(programVersion(), '-V, --version', 'name and version, as run logs record them')
    .enablePositionalOptions()
    .showSuggestionAfterError(true)
    .addHelpText(
      'after',
      '\nFirst steps:\n  npm run gpt2 -- quickstart\n  npm run prepro -- text book.txt\n  npm run train -- --data data/book --steps 100\n  npm run sample\n',
    );
  const commands = [
    quickstartCommand(interruption),
    preproCommand(),
    tokenizerCommand(),
    trainCommand(interruption),
    presetsCommand(),
    sampleCommand(),
    evalCommand(),
    compareCommand(),
    reportCommand(),
    runsCommand(),
    replayCommand(),
    benchCommand(),
    exportCommand(),
    kernelCommand(interruption),
    courseCommand(),
    doctorCommand(),
  ];
  for (const command of commands) root.addCommand(command as unknown as Command);
  // Remove --verbose from the parsed flags: cli.ts has read it, and an action would take it for a training option.
  root.hook('preAction', (_, action) => void action.setOptionValue('verbose', undefined));
  for (const command of [root, ...root.commands, ...root.commands.flatMap(({ commands }) => commands)]) {
    command
      .exitOverride()
      .configureHelp({ optionDescription: describe, argumentDescription: describe })
      .option('--verbose', 'print the stack of an error');
    for (const option of command.options) refuseOtherChoices(option, option.long!);
    for (const argument of command.registeredArguments) refuseOtherChoices(argument, argument.name());
    if (!isCompiled && command.options.some(({ long }) => long === '--json')) {
      const why = 'npm prints other lines before the JSON';
      command.addHelpText('after', `To pass --json to a program, use npm run --silent: ${why} otherwise.\n`);
    }
    if (command.commands.length > 0) {
      command.helpCommand('help [COMMAND]').hook('preSubcommand', ({ args }, next) => refuseKeptFlags(next, args));
    }
    command.configureOutput({
      writeOut: (text) => process.stdout.write(asTyped(text)),
      writeErr: (text) => process.stderr.write(asTyped(text)),
      outputError: (text, write) => write(inOneLine(text, command)),
    });
  }
  return root;
}

/** Makes commander report a wrong choice in the words that the options table uses for a wrong value. */
function refuseOtherChoices(part: Option | Argument, name: string): void {
  const { argChoices, parseArg } = part;
  if (!argChoices || !parseArg) return;
  part.argParser((text) => {
    checkValue(name, argChoices, text);
    return text;
  });
}

/** Help text of an option or argument, followed by its choices, unless the text already names them all, and by its default. */
function describe({ description, argChoices = [], defaultValue }: Option | Argument): string {
  const choices = argChoices.every((choice) => description.includes(choice)) ? '' : `: ${argChoices.join(', ')}`;
  const hasDefault = ['number', 'string'].includes(typeof defaultValue) && defaultValue !== '';
  return `${description}${choices}${hasDefault ? ` (default: ${defaultValue})` : ''}`;
}

/** Turns an error message of commander into one line that ends with advice, the form of all our messages. */
function inOneLine(text: string, command: Command): string {
  const what = (surplusIn(text, command) ?? withChoices(text, command) ?? unknownOptions(text, command))
    .replace(/^error: /, '')
    .trim()
    .replaceAll('\n', ' ')
    .replace(/\.$/, '');
  return `${what}; see \`npm run gpt2 -- ${[...namesOf(command).slice(1), '--help'].join(' ')}\`\n`;
}

/** Adds to commander's "too many arguments" error the first surplus word and a flag that the word may lack; undefined: another error. */
function surplusIn(text: string, { args, registeredArguments, options }: Command): string | undefined {
  const [what] = /too many arguments for '[^']*'/.exec(text) ?? [];
  const word = args[registeredArguments.length];
  if (what === undefined || word === undefined) return undefined;
  const kind = existsSync(word) ? 'path' : /^\d+$/.test(word) ? 'port' : undefined;
  const flags = { path: ['--model', '--data'], port: ['--port'] };
  const flag = kind && flags[kind].find((long) => options.some((option) => option.long === long));
  const hint = flag
    ? `a ${kind} goes with its flag, as ${flag} ${shellWord(word)}`
    : 'every value needs its flag, a path with spaces quotes, and a list no space after its commas';
  return `${what}: ${JSON.stringify(word)}; ${hint}`;
}

/** Adds the choices to commander's error about a missing required option; undefined: another error. */
function withChoices(text: string, { options }: Command): string | undefined {
  const [what, flag] = /required option '(--[\w-]+)[^']*' not specified/.exec(text) ?? [];
  const choices = options.find(({ long }) => long === flag)?.argChoices;
  return choices && `${what}: give one of ${choices.join(', ')}`;
}

/** Notices about options of other programs that gpt2.ts lacks, by name without separators: lrdecayiters for --lr_decay_iters. */
const missing: Readonly<Record<string, string>> = {
  lora: 'LoRA is not supported, training changes all weights',
  dropout: 'dropout is not supported',
  bias: 'the biases of GPT-2 are always there',
  compile: 'the kernels are compiled already',
  backend: 'NCCL is used where GPUs need it',
  lrdecayiters: 'with --schedule cosine the rate falls over all steps',
  evalonly: '`npm run eval` evaluates a model',
};

/** Extends commander's error about one unknown option to all unknown options, each with our equivalent or a hint. */
function unknownOptions(text: string, { args, options }: Command): string {
  const [, first] = /unknown option '([^']*)'/.exec(text) ?? [];
  if (first === undefined) return text;
  const unknown = args.slice(args.indexOf(first)).filter((arg) => /^--?[a-z]/i.test(arg));
  const isOne = unknown.length < 2;
  const hintOf = (typed: string): string => {
    const flag = typed.replace(/=.*/s, '');
    const meant = optionMeant(typed, options) ?? optionMeant(flag, options);
    if (meant) return `here it is ${meant.long}${isOne ? `, ${describe(meant)}` : ''}`;
    const flags = options.map(({ long }) => long!);
    return missing[plain(flag)] ?? didYouMean(flag, flags, 'there is none like it');
  };
  if (isOne) return `unknown option '${first}': ${hintOf(first)}`;
  return `unknown options: ${unknown.map((typed) => `${typed}: ${hintOf(typed)}`).join('; ')}`;
}
