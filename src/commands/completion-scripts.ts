// The scripts of `completion`: the same three questions in the language of each shell. Which command is being typed, whether the word
// before is a flag that takes a value, and if not, which words may follow. Where nothing is known, shells offer files.

/** What can be typed after a command. */
export interface Completed {
  /** ['gpt2', 'prepro', 'text'] */
  readonly path: readonly string[];
  readonly subcommands: readonly { readonly name: string; readonly help: string }[];
  /** What its arguments can be, where that is known. */
  readonly words: readonly string[];
  readonly options: readonly {
    readonly flag: string;
    readonly help: string;
    /** What has to follow the flag; undefined: nothing. */
    readonly value: Value | undefined;
  }[];
}

/** Words that are known; where others may stand as well, shells offer files. */
export interface Value {
  readonly words: readonly string[];
  readonly isOpen: boolean;
}

export type Shell = 'bash' | 'zsh' | 'fish';

export const completionScripts: Readonly<Record<Shell, (commands: readonly Completed[]) => string>> = {
  bash,
  zsh,
  fish,
};

/** In single quotes, which all three take alike but for the quote itself. */
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const key = ({ path }: Completed): string => path.join(' ');

const wordsOf = ({ subcommands, words }: Completed): string[] => [...subcommands.map(({ name }) => name), ...words];

/** Cases of a flag that takes a value, one for all flags that take the same. */
function valueCases(commands: readonly Completed[], offer: (value: Value) => string): string[] {
  const patterns = new Map<string, string[]>();
  for (const command of commands) {
    for (const { flag, value } of command.options) {
      if (!value) continue;
      const action = offer(value);
      patterns.set(action, [...(patterns.get(action) ?? []), quote(`${key(command)} ${flag}`)]);
    }
  }
  return [...patterns].map(([action, flags]) => `    ${flags.join(' | ')}) ${action} ;;`);
}

const pathCase = (commands: readonly Completed[]): string =>
  commands
    .slice(1)
    .map((command) => quote(key(command)))
    .join(' | ');

function bash(commands: readonly Completed[]): string {
  const values = valueCases(commands, ({ words }) => `words=${quote(words.join(' '))}; flags=''`);
  const rest = commands.map(
    (command) =>
      `      ${quote(key(command))}) words=${quote(wordsOf(command).join(' '))}; flags=${quote(command.options.map(({ flag }) => flag).join(' '))} ;;`,
  );
  return `# Completion of gpt2 in bash, made by: gpt2 completion bash
_gpt2() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" at=gpt2 words flags index
  # bash takes --flag=value apart into three words.
  if [[ $word == '=' ]]; then word=''; elif [[ $before == '=' ]]; then before="\${COMP_WORDS[COMP_CWORD - 2]}"; fi
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "$at \${COMP_WORDS[index]}" in
      ${pathCase(commands)}) at="$at \${COMP_WORDS[index]}" ;;
    esac
  done
  case "$at $before" in
${values.join('\n')}
    *) case "$at" in
${rest.join('\n')}
    esac ;;
  esac
  [[ $word == -* ]] && words="$flags"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _gpt2 gpt2
`;
}

function zsh(commands: readonly Completed[]): string {
  // A colon parts a word from its description.
  const described = (name: string, help: string) => quote(`${name.replaceAll(':', '\\:')}:${help}`);
  const values = valueCases(commands, ({ words, isOpen }) => {
    const known = words.length === 0 ? '' : `compadd -- ${words.map(quote).join(' ')}; `;
    return `${known}${isOpen ? '_files; ' : ''}return`;
  });
  const rest = commands.map((command) => {
    const { subcommands, words, options } = command;
    const offered = [
      ...subcommands.map(({ name, help }) => described(name, help)),
      ...words.map((word) => described(word, '')),
    ];
    const flags = options.map(({ flag, help }) => described(flag, help));
    return `    ${quote(key(command))})\n      words_=(${offered.join(' ')})\n      flags=(${flags.join('\n        ')}) ;;`;
  });
  return `#compdef gpt2
# Completion of gpt2 in zsh, made by: gpt2 completion zsh
_gpt2() {
  local at=gpt2 index
  local -a words_ flags
  for ((index = 2; index < CURRENT; index++)); do
    case "$at \${words[index]}" in
      ${pathCase(commands)}) at="$at \${words[index]}" ;;
    esac
  done
  case "$at \${words[CURRENT - 1]}" in
${values.join('\n')}
  esac
  case "$at" in
${rest.join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then _describe flag flags
  elif (( $#words_ )); then _describe word words_ || _files
  else _files
  fi
}
if [[ $funcstack[1] == _gpt2 ]]; then _gpt2 "$@"; else compdef _gpt2 gpt2; fi
`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap((command) => {
    const { path, subcommands, words, options } = command;
    const nested = commands.filter((one) => one.path.length > path.length && one.path[path.length - 1] === path.at(-1));
    const seen = path.slice(1).map((name) => `__fish_seen_subcommand_from ${name}`);
    const deeper = nested.map((one) => one.path[path.length]!);
    const notDeeper = deeper.length === 0 ? [] : [`not __fish_seen_subcommand_from ${[...new Set(deeper)].join(' ')}`];
    const when = `complete -c gpt2 -n ${quote([...seen, ...notDeeper].join('; and '))}`;
    return [
      ...subcommands.map(({ name, help }) => `${when} -f -a ${name} -d ${quote(help)}`),
      ...words.map((word) => `${when} -f -a ${word}`),
      ...options.map(({ flag, help, value }) => {
        const takes = value ? (value.isOpen ? ' -r' : ' -x') : '';
        const known = value && value.words.length > 0 ? ` -a ${quote(value.words.join(' '))}` : '';
        return `${when} -l ${flag.slice(2)}${takes}${known} -d ${quote(help)}`;
      }),
    ];
  });
  return `# Completion of gpt2 in fish, made by: gpt2 completion fish\n${lines.join('\n')}\n`;
}
