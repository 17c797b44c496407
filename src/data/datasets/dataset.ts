// Declares the interface of a data set: the source of its documents, and its part for validation. Each data set has one file in
// this folder; prepare.ts makes the shards of any data set.

export interface SourceOptions {
  /** The source file, instead of a local or downloaded one. */
  readonly from?: string;
  /** The data set's folder, which keeps a download. */
  readonly folder: string;
  readonly notice: (text: string) => void;
}

export interface DatasetSource {
  readonly name: string;
  readonly description: string;
  /** The beginning of shard names: "tiny_shakespeare" gives tiny_shakespeare_train.bin. */
  readonly prefix: string;
  /** The possible sources without --from. A data set in the folder with another source is one of another text. */
  readonly sources: readonly string[];
  /** The documents, in order, and their source. */
  documents(options: SourceOptions): Promise<{ source: string; documents: readonly string[] }>;
  /** The part for validation: tokens from the start, or a share of the documents from the end. */
  readonly validation: { readonly firstTokens: number } | { readonly lastDocumentsShare: number };
}
