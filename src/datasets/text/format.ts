// What is made of given files: how their bytes are documents, and how documents become tokens. Plain data: it goes to the
// threads, and names work that was done before.

/** How a file holds documents. */
export type Format =
  /** As it stands: a file is a document, or a separator stands between them; `strip` takes white space off their ends. */
  | { readonly kind: 'text'; readonly separator?: string; readonly strip?: boolean }
  /** A line is a JSON object with the document in a field. */
  | { readonly kind: 'jsonl'; readonly field: string };

/** All that the tokens of a text depend on, besides the text. */
export interface Encoding {
  readonly tokenizer: string;
  readonly format: Format;
}

/** Whose documents a file holds; `split`: told by their content. */
export type FileRole = 'split' | 'train' | 'val';

/** A file of documents; what ends in .gz is unpacked as it is read. */
export interface Input {
  readonly path: string;
  readonly bytes: number;
  readonly role: FileRole;
}

/** A stretch of one file, in one piece. */
export interface Piece {
  /** In the chunk's bytes. */
  readonly start: number;
  readonly end: number;
  /** Whether a document begins with it, and whether one ends with it. */
  readonly opens: boolean;
  readonly closes: boolean;
  readonly role: FileRole;
  /** Where it is from, for messages. */
  readonly path: string;
  readonly offset: number;
}

/** What a thread encodes at once. */
export interface Chunk {
  readonly index: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly pieces: readonly Piece[];
}

/** Longest separator, so that one that lies across two reads is found. */
export const longestSeparator = 1024;
