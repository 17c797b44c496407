// A long document's blocks: stretches of 16 to 32 KiB, cut where cutting changes no id. Each is for training or for
// validation, so that one book alone has both; where they begin depends on the document alone.
import { chooseCut } from '../../tokenizer/safe-cuts.ts';

const leastBytes = 16 << 10;
/** A document longer than this from a block's beginning on has another block. */
export const mostBytes = 32 << 10;

/** Where the block that begins at `start` ends, in a document that goes on to `end`. */
export const blockEnd = (bytes: Uint8Array, start: number, end: number): number =>
  end - start < mostBytes ? end : chooseCut(bytes, start + leastBytes, start + mostBytes);
