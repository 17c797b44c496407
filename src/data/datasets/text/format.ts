// Declares how files hold documents and how documents become tokens. Values of these types are plain data: they can be sent to
// threads, and hashed, so that a later start of prepro finds the parts that are already encoded.
import { huggingFaceName } from '../../../tokenizer/tokenizer.ts';

/** The way a file holds documents. */
export type Format =
  /** Plain text: a file is one document, or a separator divides it into documents. `strip` removes white space at documents' ends. */
  | { readonly kind: 'text'; readonly separator?: string | undefined; readonly strip?: boolean | undefined }
  /** Each line is a JSON object with the document in a field. */
  | { readonly kind: 'jsonl'; readonly field: string };

/** The settings on which the tokens of a text depend. */
export interface Encoding {
  /** The tokenizer's name and hash, as in dataset.json. */
  readonly tokenizer: string;
  readonly tokenizerSha256?: string;
  readonly format: Format;
}

/** Whether long documents are cut at starts of lines if possible, because the tokenizer's pattern may not be GPT-2's. */
export const cutsAtLines = ({ tokenizer }: Encoding): boolean => tokenizer === huggingFaceName;

/** The role of a file's documents; `split`: a hash of each block's content decides. */
export type FileRole = 'split' | 'train' | 'val';

/** A file of documents; .gz files are decompressed while they are read. */
export interface Input {
  readonly path: string;
  readonly bytes: number;
  readonly role: FileRole;
}

/** A contiguous range of one file, inside a chunk. */
export interface Piece {
  /** Where the piece lies, as byte offsets in the chunk; `end` is after its last byte. */
  readonly start: number;
  readonly end: number;
  /** Whether a document begins where the piece begins, and whether one ends where the piece ends. */
  readonly opens: boolean;
  readonly closes: boolean;
  readonly role: FileRole;
  /** Path of the file, and the piece's offset in the file in bytes, for messages. */
  readonly path: string;
  readonly offset: number;
  /** In JSON lines, the line number of the piece's first line in its file, counted from 1. */
  readonly line: number;
}

/** The unit of work of an encoding thread: some megabytes of text, from one file or several. */
export interface Chunk {
  readonly index: number;
  readonly bytes: Uint8Array & { readonly buffer: ArrayBuffer };
  readonly pieces: readonly Piece[];
}

/** Most bytes of a separator: far below a chunk's 4 MiB, because chunks.ts never cuts in the last bytes, which may begin a separator. */
export const longestSeparator = 1024;
