// Checks what options mean together.
import { UsageError } from '../errors.ts';
import { customModel } from '../model/config.ts';
import { roundTokens } from './defaults.ts';
import { type Facts, flagOf } from './row.ts';
import { type DefaultedOptions, type OptionName, optionNames, optionRows, type TrainOptions } from './table.ts';

/**
 * @param given without defaults, but with the options of a config file or of the resumed run
 * @throws UsageError
 */
export function checkOptions(given: TrainOptions, options: DefaultedOptions, { context }: Facts): void {
  const refuse = (message: string): never => {
    throw new UsageError(message);
  };
  for (const name of optionNames) {
    const { needs } = optionRows[name];
    if (needs === undefined || given[name] === undefined || given[needs as OptionName] !== undefined) continue;
    refuse(`${flagOf(optionRows[name])} goes with ${flagOf(optionRows[needs as OptionName])}: give both`);
  }
  const { batch, sequence, ranks, totalBatch, model, device, steps, warmup } = options;
  const together = roundTokens(options);
  if (totalBatch !== undefined && totalBatch % together !== 0) {
    const gpus = ranks > 1 ? ` x --gpus ${ranks}` : '';
    refuse(
      `--total-batch ${totalBatch} is not a multiple of --batch ${batch} x --seq ${sequence}${gpus} = ${together} tokens; take one that is`,
    );
  }
  if (model === customModel && !(options.layers && options.channels && options.heads)) {
    refuse(`--model ${customModel} has the sizes that are given: it needs --layers, --channels and --heads`);
  }
  if (ranks > 1 && /^cuda:/.test(device)) {
    refuse(`--device ${device} is one GPU; with --gpus ${ranks} give --device cuda`);
  }
  if (sequence > context) {
    refuse(`--seq ${sequence} is over the model's context of ${context} positions; take a shorter --seq`);
  }
  if (steps !== undefined && warmup > steps) {
    refuse(`--warmup ${warmup} is over --steps ${steps}; take a shorter --warmup`);
  }
}
