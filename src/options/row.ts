// The columns of the options table (table.ts), and the types that follow from them.
import type { ValueType } from '../base/checks/given.ts';
import type { LibraryKind } from '../native/find-library.ts';

export { real, whole } from '../base/checks/given.ts';

/** Names of options in whose place a program may pass a function or object. */
export const programParts = ['schedule', 'optimizer', 'batches', 'validation'] as const;
export type ProgramPart = (typeof programParts)[number];

type OneValue = string | number | boolean;
export type OptionValue = OneValue | readonly string[];

/** Facts that derived defaults and checks depend on. */
export interface Facts {
  readonly kind: LibraryKind;
  /** The model's context; infinite while the model is unknown. */
  readonly context: number;
  /** The number of channels of a new model; infinite for a model that starts from weights. */
  readonly channels: number;
  readonly startsFromWeights: boolean;
  /** Whether the model's sizes and parts are known: false until the weights that --model names are opened. */
  readonly isModelKnown: boolean;
  readonly asked: Readonly<Record<string, unknown>>;
}

interface DerivedDefault {
  readonly text: string;
  /** Computes the default. If absent, the option stays unset, or the code that uses the option computes the value. */
  readonly of?: (facts: Facts) => OneValue;
}

/** One option; an option whose type is 'texts' can be repeated. */
export interface OptionRow {
  /** The flag and its value's name: "--steps <N>"; in [] instead of <> if the value is optional. */
  readonly usage: string;
  /** For a flag whose value is optional: the option's value if the flag stands alone. */
  readonly alone?: OptionValue;
  readonly type: ValueType;
  /** Imperative or noun phrase of fewer than 80 characters; the default is appended from the column `default`. */
  readonly help: string;
  readonly default?: OneValue | DerivedDefault;
  /**
   * The option may be missing from config.json, because the option has no default or was added after version 0.1.0. A run without
   * the option has the default. Every new option of a model or run must be optional.
   */
  readonly optional?: true;
  /** Whether --resume may change the option. Default: yes, with a notice. */
  readonly resume?: 'never' | 'with --order sequence' | 'to the same model';
  /**
   * Whether `compare` and reports treat runs that differ in the option as different. Default: yes. 'by file name': yes, but against
   * a reference and in tables only the last component of the path counts. 'if the rate falls': against a reference, only if one of
   * the learning rates falls. 'without validation': a reference is compared without its validation losses.
   */
  readonly compare?: 'no' | 'by file name' | 'if the rate falls' | 'without validation';
  /** Ranks may have different values, because the option depends on the machine. */
  readonly perMachine?: true;
  /** The option that this option replaces. Setting both is an error; in a merge, setting either drops the other's earlier value. */
  readonly insteadOf?: string;
  /** Another option that must be set if this option is set. */
  readonly needs?: string;
  /** This option has an effect only if another option has one of these values; otherwise only its default is allowed. */
  readonly onlyWith?: { readonly option: string; readonly values: readonly [string, ...string[]] };
  /** The program part (a function or object of a program) with which this option has no effect; setting both is an error. */
  readonly without?: ProgramPart;
  /** One of the ten options with which `train --help` opens. */
  readonly frequent?: true;
  /** The command `bench` has the option too. 'training': the option affects only the training that `bench` times, not generation. */
  readonly bench?: true | 'training';
  /** Returns advice for the end of the error about a wrong value: what the user may have meant. */
  readonly otherwise?: (value: string) => string;
  /** The option's names in other programs: the error for such a name suggests this option. */
  readonly elsewhere?: readonly string[];
}

/** `true` if a row has a default that is known before the data are open. */
export type HasDefault<R> = R extends { readonly default: infer D }
  ? D extends OptionValue | { readonly of: unknown }
    ? true
    : false
  : false;

/** The default of a row; undefined if the row has none, or if it depends on facts not known yet. */
export function defaultOf({ default: value }: OptionRow, facts?: Facts): OptionValue | undefined {
  if (typeof value !== 'object') return value;
  return facts && value.of?.(facts);
}

export const flagOf = ({ usage }: OptionRow): string => usage.split(' ')[0]!;

export function helpOf({ help, default: value }: OptionRow): string {
  if (value === undefined || value === false) return help;
  return `${help} (default: ${typeof value === 'object' ? value.text : value})`;
}
