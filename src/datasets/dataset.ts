// What a data set is: where its documents come from, and which of its tokens are for validation. One file per data set
// beside this one; prepare.ts turns any of them into shards.

export interface SourceOptions {
  /** The source file, instead of looking for or downloading it. */
  readonly from?: string;
  readonly notice: (text: string) => void;
}

export interface DatasetSource {
  readonly name: string;
  readonly description: string;
  /** What shard files begin with: "tiny_shakespeare" gives tiny_shakespeare_train.bin. */
  readonly prefix: string;
  /** What its documents may come from without --from: to tell its shards from those of another text. */
  readonly sources: readonly string[];
  /** The documents, in order, and where they came from. */
  documents(options: SourceOptions): Promise<{ source: string; documents: readonly string[] }>;
  /** How many tokens from the start (validation first) or how many documents from the end are validation. */
  readonly validation: { readonly firstTokens: number } | { readonly lastDocumentsShare: number };
}
