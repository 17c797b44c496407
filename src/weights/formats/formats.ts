// The table of model formats of other programs: each is recognised, read and written in one file of this folder.
import { statSync } from 'node:fs';
import { StoredFile } from '../files/stored-file.ts';
import { gguf } from './gguf.ts';
import { huggingFace } from './huggingface.ts';
import { llmc } from './llmc.ts';
import type { ModelFormat, StoredModel } from './stored-model.ts';

/** The formats by their names for --format. */
export const formats = { hf: huggingFace, llmc, gguf } as const satisfies Record<string, ModelFormat>;
const all: readonly ModelFormat[] = Object.values(formats);

/** The ways to name a trained model (weights/weights.ts), for --help and messages. */
export const modelPaths = ['a run', 'a checkpoint', ...all.flatMap(({ named = [] }) => named)]
  .join(', ')
  .replace(/, (?=[^,]*$)/, ', or ');

/**
 * Returns a function that opens another program's model; undefined if the path is a folder of this program, or does not exist.
 * A file of unknown format counts as llm.c's, whose reader reports the header.
 * @throws Gpt2Error if a file cannot be read
 */
export function openerOf(path: string): (() => StoredModel) | undefined {
  using file = statSync(path, { throwIfNoEntry: false })?.isFile() ? new StoredFile(path) : undefined;
  const head = file?.read(Buffer.alloc(Math.min(file.bytes, 9)), 0, `the header of ${path}`).toString('latin1');
  const format = all.find(({ recognises }) => recognises(path, head)) ?? (file && llmc);
  return format && (() => format.open(path, modelPaths, head));
}
