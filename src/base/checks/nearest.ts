// Finds the name nearest to a mistyped one.

/** Option names by spelling: the spellings "steps" and "--steps" both have the name "steps". */
export type Spellings = ReadonlyMap<string, string>;

/** The message about an unknown name: `there is no option "stepps"; did you mean "steps"?` @param otherwise text if no option is near */
export function unknownOption(wrong: string, spellings: Spellings, otherwise: string): string {
  const near = nearest(wrong, spellings);
  return `there is no option ${JSON.stringify(wrong)}; ${near === undefined ? otherwise : `did you mean ${JSON.stringify(near)}?`}`;
}

/** Advice for a mistyped name: "did you mean tinyshakespeare?", or `otherwise` if no name is near. */
export function didYouMean<Otherwise extends string | undefined>(
  wrong: string,
  names: readonly string[] | Spellings,
  otherwise: Otherwise,
): string | Otherwise {
  const near = nearest(wrong, 'get' in names ? names : new Map(names.map((name) => [name, name])));
  return near === undefined ? otherwise : `did you mean ${near}?`;
}

/** The option with the nearest spelling, ignoring case and punctuation; undefined if over 3 edits, or 0.4 per letter of `wrong`, away. */
function nearest(wrong: string, spellings: Spellings): string | undefined {
  const letters = lettersOf(wrong);
  const found = [...spellings].map(([spelling, name]) => ({ name, edits: distance(letters, lettersOf(spelling)) }));
  const [best] = found.sort((a, b) => a.edits - b.edits);
  return best && best.edits <= Math.min(3, 0.4 * letters.length) ? best.name : undefined;
}

const lettersOf = (name: string): string => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');

/** The fewest letters to insert, delete, replace or swap with a neighbour (Damerau-Levenshtein, optimal string alignment). */
export function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? rows[i - 2]![j - 2]! + 1 : replaced;
      row.push(Math.min(replaced, swapped, rows[i - 1]![j]! + 1, row[j - 1]! + 1));
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
