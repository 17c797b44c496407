// `completion`: prints a script that teaches a shell this program's commands and flags. What they are comes from the commander
// definitions themselves; how each shell is told is in completion-scripts.ts.
import { Argument, Command, type Option } from 'commander';
import { type Completed, completionScripts, type Shell, type Value } from './completion-scripts.ts';

const help = `
Once, for every shell to come, into a folder that may have to be made first:
  npm run --silent gpt2 -- completion bash > ~/.local/share/bash-completion/completions/gpt2
  npm run --silent gpt2 -- completion zsh > ~/.zfunc/_gpt2
  npm run --silent gpt2 -- completion fish > ~/.config/fish/completions/gpt2.fish

zsh also wants  fpath=(~/.zfunc $fpath); autoload -U compinit; compinit  in ~/.zshrc.
For this shell alone, bash or zsh: source <(npm run --silent gpt2 -- completion bash).

A shell completes a command gpt2, and not what follows npx or npm. npm install --global of the package makes one; without it a
function does, in ~/.bashrc or ~/.zshrc, or in fish's config.fish:
  gpt2() { npm run --silent gpt2 -- "$@"; }
  function gpt2; npm run --silent gpt2 -- $argv; end
`;

export function completionCommand(): Command {
  const shells = Object.keys(completionScripts) as Shell[];
  return new Command('completion')
    .description('Print a script that completes commands and flags in a shell')
    .addArgument(new Argument('<SHELL>', 'whose script').choices(shells))
    .addHelpText('after', help)
    .action((shell: Shell, _flags: unknown, command: Command) => {
      process.stdout.write(completionScripts[shell](describeCommands(command.parent!)));
    });
}

/** Of options that take anything, what they are most likely given. */
const suggested = new WeakMap<Option, () => readonly string[]>();

export function suggest(option: Option, words: () => readonly string[]): Option {
  suggested.set(option, words);
  return option;
}

const valueAfter = (option: Option): Value =>
  option.argChoices
    ? { words: option.argChoices, isOpen: false }
    : { words: suggested.get(option)?.() ?? [], isOpen: true };

/** A command and all beneath it, as --help has them. */
export function describeCommands(command: Command, path: readonly string[] = [command.name()]): Completed[] {
  const shown = command.createHelp();
  const subcommands = shown.visibleCommands(command);
  const own: Completed = {
    path,
    subcommands: subcommands.map((one) => ({ name: one.name(), help: shown.subcommandDescription(one) })),
    words: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    options: shown.visibleOptions(command).map((option) => ({
      flag: option.long!,
      help: option.description,
      value: option.required ? valueAfter(option) : undefined,
    })),
  };
  return [own, ...subcommands.flatMap((one) => describeCommands(one, [...path, one.name()]))];
}
