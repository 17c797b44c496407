// Exports a model to a format of another program.

import { accessSync, constants, existsSync, mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { resolveCheckpoint } from '../checkpoint/directory.ts';
import { checkGiven } from '../checks/given.ts';
import { Gpt2Error, UsageError } from '../errors.ts';
import type { WeightType } from './checkpoint-weights.ts';
import { clearInterruptedExports, isFreeForFolder, writeFolder } from './export-place.ts';
import { writeGguf } from './gguf.ts';
import { huggingFaceFiles, isHuggingFaceModel, writeHuggingFace } from './huggingface.ts';
import { writeLlmc } from './llmc.ts';

export const exportFormats = {
  hf: 'a folder for transformers: model.safetensors, config.json, tokenizer files',
  llmc: "llm.c's model .bin, fp32 or bf16",
  gguf: 'a GGUF file for llama.cpp and its relatives, fp32 or bf16',
} as const;
export type ExportFormat = keyof typeof exportFormats;

/** A model to export. */
export interface ExportOptions {
  /** A run or a checkpoint. */
  readonly model: string;
  readonly format: ExportFormat;
  /** The file or folder to write. */
  readonly out: string;
  /** Default fp32. */
  readonly dtype?: WeightType;
}

/**
 * Writes a model in another program's format and returns the path of its checkpoint.
 * @throws UsageError for a dtype that the format lacks; Gpt2Error if the model cannot be read or `out` exists
 * @example exportModel({ model: 'runs/first', format: 'gguf', out: 'model.gguf' });
 */
export function exportModel(options: ExportOptions): string {
  const formats = Object.keys(exportFormats);
  checkGiven(options, { model: 'text', format: formats, out: 'text' }, { dtype: ['fp32', 'bf16'] });
  const { model, format, out, dtype = 'fp32' } = options;
  if (format === 'hf' && dtype !== 'fp32')
    throw new UsageError(`--format hf writes fp32, not ${dtype}: omit --dtype, or give --format llmc or gguf`);
  const isFolder = format === 'hf';
  const path = resolve(out);
  if (isFolder ? !isFreeForFolder(path, huggingFaceFiles) : existsSync(path)) {
    throw new Gpt2Error(`${out} already exists: name another --out, or remove it`);
  }
  if (isHuggingFaceModel(model)) {
    throw new Gpt2Error(`${model} is a Hugging Face folder already: name a run or a checkpoint of train`);
  }
  const checkpoint = resolveCheckpoint(model);
  try {
    const folder = isFolder && existsSync(path) ? path : dirname(path);
    mkdirSync(folder, { recursive: true });
    // Checked before the model is read; later the message would name the temporary file.
    accessSync(folder, constants.W_OK);
    if (isFolder) writeFolder(path, (temporary) => writeHuggingFace(temporary, checkpoint));
    else {
      clearInterruptedExports(path);
      if (format === 'llmc') writeLlmc(out, checkpoint, dtype);
      else writeGguf(out, checkpoint, dtype);
    }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === undefined) throw cause;
    throw new Gpt2Error(`cannot write ${out}: ${(cause as Error).message}; name another --out`, { cause });
  }
  return checkpoint.path;
}
