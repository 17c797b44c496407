// Declares how files hold documents and how documents become tokens. Plain data: it is sent to the threads, and identifies the
// work of an earlier start.
import { huggingFaceName } from '../../../tokenizer/huggingface-tokenizer.ts';

/** The way a file holds documents. */
export type Format =
  /** Plain text: a file is a document, or a separator divides it; `strip` removes white space at the ends of documents. */
  | { readonly kind: 'text'; readonly separator?: string | undefined; readonly strip?: boolean | undefined }
  /** Each line is a JSON object with the document in a field. */
  | { readonly kind: 'jsonl'; readonly field: string };

/** Everything besides the text that its tokens depend on. */
export interface Encoding {
  /** As in dataset.json. */
  readonly tokenizer: string;
  readonly tokenizerSha256?: string;
  readonly format: Format;
}

/** Whether long documents are cut at lines, because the tokenizer's pattern is not known. */
export const cutsAtLines = ({ tokenizer }: Encoding): boolean => tokenizer === huggingFaceName;

/** The role of a file's documents; `split`: their content decides. */
export type FileRole = 'split' | 'train' | 'val';

/** A file of documents; .gz files are decompressed while they are read. */
export interface Input {
  readonly path: string;
  readonly bytes: number;
  readonly role: FileRole;
}

/** A continuous part of one file. */
export interface Piece {
  /** In the chunk's bytes. */
  readonly start: number;
  readonly end: number;
  /** Whether a document begins with it, and whether one ends with it. */
  readonly opens: boolean;
  readonly closes: boolean;
  readonly role: FileRole;
  /** Its file and offset, for messages. */
  readonly path: string;
  readonly offset: number;
  /** Of JSON lines: the number of its first line. */
  readonly line: number;
}

/** The input of one call of a thread. */
export interface Chunk {
  readonly index: number;
  readonly bytes: Uint8Array & { readonly buffer: ArrayBuffer };
  readonly pieces: readonly Piece[];
}

/** The maximum length of a separator, so that one across two reads is found. */
export const longestSeparator = 1024;
