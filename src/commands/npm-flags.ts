// Refuses flags that npm kept for itself: in `npm run train --dry-run`, without a lone -- before it, --dry-run is an option of npm.
import type { Command, Option } from 'commander';
import { usageError } from '../program.ts';

/** The flag as typed; [] if npm did not take it. npm stores --steps=10 as npm_config_steps=10, a switch as true, --no-ops as ''. */
function keptFlag({ long, negate, flags, required }: Option): string[] {
  const value = process.env[`npm_config_${long!.replace(negate ? '--no-' : '--', '').replaceAll('-', '_')}`];
  if (value === undefined || (value === '') !== negate) return [];
  if (value === '' || (value === 'true' && !required)) return [long!];
  return [value === 'true' ? flags : `${long}=${value}`];
}

/** The command's name and its parents' names, outermost first: ['gpt2', 'prepro', 'text']. */
export const namesOf = (command: Command): string[] =>
  command.parent ? [...namesOf(command.parent), command.name()] : [command.name()];

/**
 * @param args arguments that reached the program; a flag in `args` is not refused, even if npm has a setting of its name
 * @throws UsageError if `npm run` took flags of `command` as npm's options
 */
export function refuseKeptFlags(command: Command, args: readonly string[]): void {
  const { npm_command, npm_lifecycle_event: script } = process.env;
  if (!/^run(-script)?$/.test(npm_command ?? '')) return;
  const lacking = command.options.filter(({ long }) => !args.includes(long!));
  const kept = lacking.flatMap(keptFlag);
  if (kept.length === 0) return;
  const names = namesOf(command);
  const at = names.indexOf(script!);
  const typed = [script, ...(at < 0 ? [] : names.slice(at + 1)), '--', ...kept].join(' ');
  throw usageError`npm kept ${kept.join(' ')} to itself: type \`npm run ${typed}\``;
}
