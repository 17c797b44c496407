// Divides a long document into blocks of 16 to 32 KiB, cut where a cut changes no id. Each block is for training or for
// validation, so one book has both. The cuts depend on the document alone.
import { chooseCut } from '../../tokenizer/safe-cuts.ts';

const leastBytes = 16 << 10;
/** A document with more bytes from a block's start has a further block. */
export const mostBytes = 32 << 10;

/** The end of the block that begins at `start`, in a document that ends at `end`. */
export const blockEnd = (bytes: Uint8Array, start: number, end: number): number =>
  end - start < mostBytes ? end : chooseCut(bytes, start + leastBytes, start + mostBytes);
