// Chooses the next token from logits: temperature, top-k, top-p, and a seeded source of chance.

export interface ChoiceOptions {
  /** Logits are divided by it; 0 always takes the likeliest. Default 1. */
  readonly temperature?: number;
  /** Only the k likeliest tokens; 0: all. Default 0. */
  readonly topK?: number;
  /** Only the likeliest tokens that together have this probability (Holtzman et al. 2019). Default 1: all. */
  readonly topP?: number;
}

/** Numbers in [0, 1) from a seed: SplitMix64 (Steele et al. 2014), the upper 53 bits. */
export class Chance {
  #state: bigint;

  constructor(seed: number) {
    this.#state = BigInt(seed);
  }

  next(): number {
    this.#state = BigInt.asUintN(64, this.#state + 0x9e3779b97f4a7c15n);
    let mixed = this.#state;
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    return Number((mixed ^ (mixed >> 31n)) >> 11n) / 2 ** 53;
  }
}

/** The index of the chosen logit. */
export function chooseToken(logits: Float32Array, { temperature = 1, topK = 0, topP = 1 }: ChoiceOptions, chance: Chance): number {
  let likeliest = 0;
  for (let index = 1; index < logits.length; index++) if (logits[index]! > logits[likeliest]!) likeliest = index;
  if (temperature === 0) return likeliest;

  const largest = logits[likeliest]!;
  const weights = Float64Array.from(logits, (logit) => Math.exp((logit - largest) / temperature));
  const isCut = (topK > 0 && topK < logits.length) || topP < 1;
  const candidates = isCut ? cut(weights, topK, topP) : undefined;
  const count = candidates?.length ?? weights.length;
  const at = (rank: number): number => candidates?.[rank] ?? rank;

  let sum = 0;
  for (let rank = 0; rank < count; rank++) sum += weights[at(rank)]!;
  let left = chance.next() * sum;
  for (let rank = 0; rank < count; rank++) {
    left -= weights[at(rank)]!;
    if (left < 0) return at(rank);
  }
  return likeliest;
}

/** Indices of the tokens that top-k and top-p leave, the likeliest first; of equals the lower index. */
function cut(weights: Float64Array, topK: number, topP: number): Uint32Array {
  const order = Uint32Array.from(weights.keys()).sort((a, b) => weights[b]! - weights[a]! || a - b);
  const kept = topK > 0 ? order.subarray(0, topK) : order;
  if (topP >= 1) return kept;
  const wanted = topP * kept.reduce((sum, index) => sum + weights[index]!, 0);
  let sum = 0;
  for (let rank = 0; rank < kept.length; rank++) {
    sum += weights[kept[rank]!]!;
    if (sum >= wanted) return kept.subarray(0, rank + 1);
  }
  return kept;
}
