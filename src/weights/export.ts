import { accessSync, constants, existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { checkGiven } from '../base/checks/given.ts';
import { Gpt2Error, gpt2Error, usageError, words } from '../base/errors.ts';
import { makeFolder } from '../base/files/make-folder.ts';
import type { FetchOptions } from '../data/datasets/download.ts';
import { otherThanGpt2 } from '../model/architecture.ts';
import type { Parameter } from '../model/parameters.ts';
import { tokenizerOf } from '../tokenizer/tokenizer.ts';
import { finite } from './files/layout.ts';
import { type WeightType, weightTypes } from './files/weight-types.ts';
import { clearInterruptedExports, isFreeForFolder, writeFolder } from './formats/export-place.ts';
import { formats } from './formats/formats.ts';
import type { ModelFormat } from './formats/stored-model.ts';
import { resolveWeights } from './weights.ts';

export type ExportFormat = keyof typeof formats;

/** The model to export, and the format and path to write. */
export interface ExportOptions extends Pick<FetchOptions, 'notice' | 'onProgress'> {
  /** The path of a run, a checkpoint, a Hugging Face folder or llm.c's file; or OWNER/NAME, a model of the Hugging Face hub. */
  readonly model: string;
  readonly format: ExportFormat;
  /** The file or folder to write. */
  readonly out: string;
  /** The number format of the written weights; default fp32. */
  readonly dtype?: WeightType | undefined;
}

/**
 * Writes a model in another program's format. Returns the path that the model was read from: a checkpoint, a file or a folder.
 * @throws UsageError for a dtype that the format lacks; Gpt2Error if the model cannot be read or `out` exists
 * @example await exportModel({ model: 'runs/first', format: 'gguf', out: 'model.gguf' });
 */
export async function exportModel(options: ExportOptions): Promise<string> {
  const optional = { dtype: Object.keys(weightTypes), notice: 'function', onProgress: 'function' } as const;
  checkGiven(options, { model: 'text', format: Object.keys(formats), out: 'text' }, optional);
  const { model, format, out, dtype = 'fp32', notice = () => {}, onProgress } = options;
  const { files, types = [dtype], assumesGpt2, holdsParts, write }: ModelFormat = formats[format];
  if (!types.includes(dtype))
    throw usageError`--format ${format} writes ${types.join(' or ')}, not ${dtype}: give another --dtype`;
  const path = resolve(out);
  if (files ? !isFreeForFolder(path, files) : existsSync(path)) {
    throw gpt2Error`${out} already exists: name another --out, or remove it`;
  }
  const weights = await resolveWeights(model, { notice, onProgress });
  using opened = weights.open();
  const advice = 'export a checkpoint from before the weights broke';
  const read = (each: Parameter) => finite(each, opened.read(each), model, advice);
  const stored = { ...opened, read };
  const parts = Object.entries(otherThanGpt2(stored.model)).map(([part, value]) => `${part} ${value}`);
  if (parts.length > 0 && !holdsParts) {
    throw gpt2Error`${model} is no GPT-2, so --format ${format} cannot hold it: it has ${parts.join(', ')}; give --format hf`;
  }
  const tokenizer = stored.tokenizer ?? tokenizerOf(stored.model);
  const unknown = `none is known for a vocabulary of ${stored.model.vocabularySize} tokens`;
  if (!assumesGpt2) {
    if (!tokenizer) notice(`the export has no tokenizer: ${unknown}`);
  } else if (tokenizer?.name !== 'gpt2')
    notice(`${assumesGpt2}, and ${tokenizer ? 'this model has another' : `for this model ${unknown}`}`);
  try {
    const folder = files && existsSync(path) ? path : dirname(path);
    makeFolder(folder);
    // Write access is checked before the model is read, because a later error would name the temporary file.
    accessSync(folder, constants.W_OK);
    if (files) writeFolder(path, (temporary) => write(temporary, stored, dtype));
    else {
      clearInterruptedExports(path);
      write(out, stored, dtype);
    }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === undefined) throw cause;
    throw new Gpt2Error(words`cannot write ${out}: ${(cause as Error).message}; name another --out`, { cause });
  }
  return weights.path;
}
