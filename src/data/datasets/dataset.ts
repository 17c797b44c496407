// Declares the two interfaces of data sets. A DatasetSource fits in memory, and prepare.ts makes its shards. A Corpus does not fit in
// memory: its method `prepare` makes the shards file by file. datasets.ts lists all data sets; each has one file in this folder.
import { join } from 'node:path';
import type { NumberType } from '../../base/checks/given.ts';
import type { Prepared } from '../standing.ts';
import type { TextOptions } from './text/prepare-text.ts';

export interface SourceOptions {
  /** A source file (--from) to use instead of the local or the downloaded one. */
  readonly from?: string;
  /** The data set's folder; a downloaded source is kept there. */
  readonly folder: string;
  readonly notice: (text: string) => void;
}

export interface DatasetSource {
  readonly name: string;
  readonly description: string;
  /** The beginning of shard names: "tiny_shakespeare" gives tiny_shakespeare_train.bin. */
  readonly prefix: string;
  /** Values that `source` in dataset.json has without --from. A folder whose dataset.json has another value holds another text. */
  readonly sources: readonly string[];
  /** Path of the source file in the folder that GPT2_DATASETS names. */
  readonly local?: string;
  /** True if the source comes with this package and may change: --from is refused, and prepro makes the shards anew each time. */
  readonly isOfPackage?: true;
  /** Reads the documents of the source, in order, and names the source for dataset.json. */
  documents(options: SourceOptions): Promise<{ source: string; documents: readonly string[] }>;
  /** The validation set: a number of tokens at the start of the text, or the last documents, as a share of all documents (0 to 1). */
  readonly validation: { readonly firstTokens: number } | { readonly lastDocumentsShare: number };
}

export interface Corpus {
  readonly name: string;
  readonly description: string;
  /** Text of --help about the source. */
  readonly about: string;
  readonly examples: string;
  /** The default folders of --out, each with the flags that choose it. */
  readonly folders: Readonly<Record<string, string>>;
  /** Glob of the source files in the folder that GPT2_DATASETS names. */
  readonly local?: string;
  /** The default of --shard-tokens. */
  readonly shardTokens: number;
  /** Flags that prepro takes for this corpus in addition to the flags of all corpora. A flag without a type takes text. */
  readonly flags?: readonly { usage: string; help: string; type?: NumberType; default?: string }[];
  prepare(options: CorpusOptions): Promise<Prepared>;
}

export type CorpusOptions = Omit<TextOptions, 'out' | 'format' | 'division'> & {
  /** Files or folders to read instead of downloading. */
  readonly from?: readonly string[];
  /** The folder to write. Default: the folder that `folders` has for the flags of the call. */
  readonly out?: string;
  readonly shardTokens: number;
  readonly validation?: number;
};

/** The path of a file in the folder that GPT2_DATASETS names; undefined if the variable is not set. */
export const inDatasets = (path: string): string | undefined =>
  process.env.GPT2_DATASETS && join(process.env.GPT2_DATASETS, path);
