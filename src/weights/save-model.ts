// Saves a model that a program has made without a run, in a folder that sample, eval, export and train can read.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { argumentKinds, checkArguments, checkGiven } from '../base/checks/given.ts';
import { gpt2Error, orElse, usageError } from '../base/errors.ts';
import { programVersion } from '../base/package-root.ts';
import { startPosition } from '../data/batches/order.ts';
import { checkFilled, type Model } from '../model/model.ts';
import { checkTokenizer, type Tokenizer, tokenizerOf } from '../tokenizer/tokenizer.ts';
import { writeCheckpoint } from './checkpoint/write.ts';

/**
 * Saves the fp32 weights in `folder`, as a checkpoint without optimizer state, and replaces an earlier save. The option `model` and
 * the flag --model take the folder.
 * @returns the path of the checkpoint
 * @throws UsageError if the tokenizer has another vocabulary, the weights were never filled, or a step is still running;
 * Gpt2Error if the folder holds a run, or cannot be written
 * @example saveModel(model, 'models/mine', { tokenizer: tokenizerNamed('gpt2') });
 */
export function saveModel(
  model: Model,
  folder: string,
  options: { readonly tokenizer?: Tokenizer | undefined } = {},
): string {
  checkArguments({ model, folder });
  checkGiven(options, {}, { tokenizer: argumentKinds.tokenizer });
  const { device, config, sharding } = model;
  const { tokenizer } = options;
  if (sharding) throw usageError`saveModel needs all weights in one process, not a model that ranks share`;
  if (tokenizer) checkTokenizer(tokenizer, config);
  // A tokenizer without a file is not saved: readers of the weights choose it by the size of the vocabulary.
  if (tokenizer && tokenizer.file === undefined && tokenizer !== tokenizerOf(config))
    throw usageError`a saved model with a vocabulary of ${config.vocabularySize} cannot name the tokenizer ${tokenizer.name}; make the model with { vocabularySize: ${tokenizer.vocabularySize} }`;
  if (orElse(undefined, () => statSync(folder))?.isFile()) throw gpt2Error`${folder} is a file; name a folder`;
  checkFilled(model);
  for (const file of ['config.json', 'checkpoints']) {
    if (existsSync(join(folder, file)))
      throw gpt2Error`${folder} holds another model or run (${file}); name another folder`;
  }
  const { codePath } = device.description;
  const ofNoRun = { configuration: {}, position: startPosition, logBytes: 0, shards: [] };
  const manifest = { program: programVersion(), codePath, ...ofNoRun };
  return writeCheckpoint({ folder, step: 0, manifest, model, optimizer: [], tokenizer: tokenizer?.file });
}
