// `completion`: prints a script that teaches a shell this program's commands and flags. What they are comes from the commander
// definitions themselves; how each shell is told is in completion-scripts.ts.
import { Argument, Command } from 'commander';
import { type Completed, completionScripts, type Shell } from './completion-scripts.ts';

const help = `
Once, for every shell to come:
  gpt2 completion bash > ~/.local/share/bash-completion/completions/gpt2
  gpt2 completion zsh > ~/.zfunc/_gpt2
  gpt2 completion fish > ~/.config/fish/completions/gpt2.fish

zsh also wants  fpath=(~/.zfunc $fpath); autoload -U compinit; compinit  in ~/.zshrc.
For this shell alone: source <(gpt2 completion bash). A shell completes the command gpt2; npx and npm complete for themselves.
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

/** A command and all beneath it, as --help has them. */
export function describeCommands(command: Command, path: readonly string[] = [command.name()]): Completed[] {
  const shown = command.createHelp();
  const subcommands = shown.visibleCommands(command);
  const own: Completed = {
    path,
    subcommands: subcommands.map((one) => ({ name: one.name(), help: shown.subcommandDescription(one) })),
    words: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    options: shown.visibleOptions(command).map(({ long, description, required, argChoices }) => ({
      flag: long!,
      help: description,
      value: required ? (argChoices ?? 'any') : 'none',
    })),
  };
  return [own, ...subcommands.flatMap((one) => describeCommands(one, [...path, one.name()]))];
}
