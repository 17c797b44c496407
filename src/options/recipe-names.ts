// The names of --recipe; recipe.ts says what each sets.
export const recipes = ['modern'] as const;
