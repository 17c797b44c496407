// Options for choosing tokens, and a seed for each text. The op `sample` chooses.

export interface Choice {
  /** Divides the logits; 0 always chooses the most likely token. */
  readonly temperature: number;
  /** Only the k most likely tokens; 0: all. */
  readonly topK: number;
  /** Only the most likely tokens that together have this probability (Holtzman et al. 2019); 1: all. */
  readonly topP: number;
}

/**
 * A 32-bit seed for a text, or for a later window of the text, unrelated to the seeds of its neighbours (the finalizer of
 * SplitMix64, Steele et al. 2014).
 */
export function textSeed(seed: number, index: number): number {
  let mixed = BigInt.asUintN(64, (BigInt.asUintN(32, BigInt(seed)) << 32n) + BigInt(index) + 1n);
  mixed = BigInt.asUintN(64, mixed * 0x9e3779b97f4a7c15n);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return Number(BigInt.asIntN(32, (mixed ^ (mixed >> 31n)) >> 32n));
}
