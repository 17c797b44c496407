// How long tests repeat what is random: GPT2_ROUNDS times as many trials as usual, drawn from the seed GPT2_SEED.
export const rounds = Number(process.env.GPT2_ROUNDS ?? 1);
export const seed = Number(process.env.GPT2_SEED ?? 1);
