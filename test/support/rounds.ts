// How often tests repeat their random parts: GPT2_ROUNDS times as many trials as usual, from the seed GPT2_SEED.
export const rounds = Number(process.env.GPT2_ROUNDS ?? 1);
export const seed = Number(process.env.GPT2_SEED ?? 1);
