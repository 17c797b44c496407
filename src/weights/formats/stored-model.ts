// The interfaces of other programs' model formats (formats.ts has their table), and of an open model file.
import type { ModelConfig } from '../../model/config.ts';
import type { Parameter } from '../../model/parameters.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { WeightType } from '../files/weight-types.ts';

/** An open model file; only its header is in memory. */
export interface StoredModel extends Disposable {
  readonly model: ModelConfig;
  /** The tokenizer stored with the model; for a checkpoint only if it is not built in. */
  readonly tokenizer?: Tokenizer | undefined;
  /** Reads a parameter in fp32 without padding rows, linear weights as [out, in]; of wpe, only `parameter`'s rows. @throws Gpt2Error */
  read(parameter: Parameter): Float32Array;
}

export interface ModelFormat {
  /** Text for --help and messages: how to name such a model for --model; absent for a format that is written but not read. */
  readonly named?: string;
  /** The line of --format in --help. */
  readonly description: string;
  /** The files that an exported folder may hold; absent if the format is one file. */
  readonly files?: readonly string[];
  /** The number formats that files of this format can hold; default: all. */
  readonly types?: readonly WeightType[];
  /** Whether the format holds models whose parts (such as the norm) are not GPT-2's. */
  readonly holdsParts?: true;
  /** For a format without a tokenizer: the notice that readers of the file use GPT-2's tokenizer. */
  readonly assumesGpt2?: string;
  /** Whether a path has this format, complete or not. @param head a file's first 9 bytes in Latin-1; undefined for a folder */
  recognises(path: string, head: string | undefined): boolean;
  /**
   * Opens a path for which `recognises` is true.
   * @param others advice for messages: the kinds of paths that --model takes
   * @throws Gpt2Error naming the file, field or tensor that cannot be used
   */
  open(path: string, others: string, head: string | undefined): StoredModel;
  /** Writes a file or, if the format has several, files in a temporary folder. @throws Gpt2Error, or the file system's error */
  write(path: string, weights: StoredModel, type: WeightType): void;
}
