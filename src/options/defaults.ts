// Fills in defaults, once the device and the model are known.
import { customModel, defaultContext, type ModelConfig, presetConfig } from '../model/config.ts';
import type { LibraryKind } from '../native/library.ts';
import { defaultOf, type Facts } from './row.ts';
import { type DefaultedOptions, optionNames, optionRows, type SettledOptions, type TrainOptions } from './table.ts';

/** @param weights sizes of the weights that --model names, if they are known yet */
export function factsOf({ model, context }: TrainOptions, kind: LibraryKind, weights?: ModelConfig): Facts {
  const startsFromWeights = model !== undefined && model !== customModel && presetConfig(model) === undefined;
  const unshortened = weights?.context ?? (startsFromWeights ? Number.POSITIVE_INFINITY : defaultContext);
  return { kind, context: context ?? unshortened, startsFromWeights };
}

/** Options in the table's order, with every default that does not depend on data. */
export function withDefaults(given: TrainOptions, facts: Facts): DefaultedOptions {
  const values = optionNames.map((name) => [name, given[name] ?? defaultOf(optionRows[name], facts)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as DefaultedOptions;
}

/** Tokens in one round of micro-batches over all ranks; `auto` counts as one sequence, which every choice is a multiple of. */
export const roundTokens = ({
  batch,
  sequence,
  ranks,
}: Pick<DefaultedOptions, 'batch' | 'sequence' | 'ranks'>): number => (batch === 'auto' ? 1 : batch) * sequence * ranks;

/** Freezes options whose batch is chosen. */
export function freezeOptions(options: DefaultedOptions & { readonly batch: number }): SettledOptions {
  const together = roundTokens(options);
  const totalBatch = options.totalBatch ?? together;
  return Object.freeze({ ...options, totalBatch, accumulation: totalBatch / together });
}
