// Sizes of a columnwise copy in FP8 of N rows (cuda/gpt2.h).
import { GPT2_FP8_COLUMNWISE } from '../native/bindings.generated.ts';

/** Rows that share a scale. */
export const blockRows = GPT2_FP8_COLUMNWISE.GPT2_FP8_BLOCK;

/** Blocks of rows; each has one scale. */
export const blocksOf = (N: number): number => Math.ceil(N / blockRows);

/** Groups of 16 rows; the last ends with zeros. */
export const groupsOf = (N: number): number => Math.ceil(N / 16);
