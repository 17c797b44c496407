// The options of choosing tokens, and a seed for each text. The op `sample` chooses.
import { UsageError } from '../errors.ts';

/** How a token is chosen. */
export interface Choice {
  /** Divides the logits; 0 always chooses the likeliest token. */
  readonly temperature: number;
  /** Only the k likeliest tokens; 0: all. */
  readonly topK: number;
  /** Only the likeliest tokens that together have this probability (Holtzman et al. 2019); 1: all. */
  readonly topP: number;
}

/** @throws UsageError naming the option that is out of its range */
export function checkChoice({ temperature, topK, topP }: Choice): void {
  if (!(temperature >= 0 && temperature < Number.POSITIVE_INFINITY)) {
    throw new UsageError(`temperature must be a number of at least 0, not ${temperature}`);
  }
  if (!Number.isSafeInteger(topK) || topK < 0 || topK >= 2 ** 31) {
    throw new UsageError(`topK must be a whole number of at least 0, not ${topK}`);
  }
  if (!(topP >= 0 && topP <= 1)) throw new UsageError(`topP must be a number from 0 to 1, not ${topP}`);
}

/**
 * A seed of 32 bits for a text, or for a later window of it, unrelated to those of its neighbours (the finalizer of SplitMix64,
 * Steele et al. 2014).
 * @throws UsageError if the seed is not a whole number of 32 bits
 */
export function textSeed(seed: number, index: number): number {
  if (!Number.isSafeInteger(seed) || seed < -(2 ** 31) || seed >= 2 ** 32) {
    throw new UsageError(`seed must be a whole number of 32 bits, not ${seed}`);
  }
  let mixed = BigInt.asUintN(64, (BigInt.asUintN(32, BigInt(seed)) << 32n) + BigInt(index) + 1n);
  mixed = BigInt.asUintN(64, mixed * 0x9e3779b97f4a7c15n);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return Number(BigInt.asIntN(32, (mixed ^ (mixed >> 31n)) >> 32n));
}
