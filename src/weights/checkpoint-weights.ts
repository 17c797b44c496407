// Reads a checkpoint's weights for files of other programs, one parameter at a time.
import { join } from 'node:path';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { readTokenizer, tokenizerFile } from '../tokenizer/tokenizer-file.ts';
import type { FoundCheckpoint } from './checkpoint/directory.ts';
import { checkWeights } from './checkpoint/read-checkpoint.ts';
import { fromStored } from './files/layout.ts';
import { weightsFile } from './files/names.ts';
import { openSafetensors } from './files/safetensors.ts';
import { readerOf } from './files/stored-file.ts';
import type { StoredModel } from './formats/stored-model.ts';

/** @throws Gpt2Error if the file is damaged or lacks a tensor */
export const openWeights = ({ path, manifest }: FoundCheckpoint): StoredModel =>
  readerOf(openSafetensors(join(path, weightsFile)), (file) => {
    checkWeights(file, manifest.model);
    return {
      model: manifest.model,
      tokenizer: checkpointTokenizer({ path, manifest }),
      read: (parameter) => fromStored(parameter, file.read(parameter.huggingFaceName)),
    };
  });

/** The tokenizer in a checkpoint; undefined if the model uses a built-in one. @throws Gpt2Error */
export const checkpointTokenizer = ({ path, manifest }: FoundCheckpoint): Tokenizer | undefined =>
  manifest.files.some(({ name }) => name === tokenizerFile) ? readTokenizer(join(path, tokenizerFile)) : undefined;
