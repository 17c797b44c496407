// Finds the characters of a text that encoding loses. White space counts only for byte-level tokenizers, because other tokenizers
// drop or move it.
export interface Loss {
  /** Number of characters in the normalized text, without white space. */
  readonly characters: number;
  /** Number of times that each code point is lost. */
  readonly lost: ReadonlyMap<number, number>;
}

const isSpace = Uint8Array.from({ length: 0x3001 }, (_, codePoint) =>
  Number(/\p{White_Space}/u.test(String.fromCodePoint(codePoint))),
);
/** Counts by code point; all 0 between calls. */
const counts = new Int32Array(0x110000);

/** Adds `step` to the count of each code point. @returns the number of characters that are no white space */
function count(text: string, step: number): number {
  let characters = 0;
  for (let at = 0; at < text.length; at++) {
    const codePoint = text.codePointAt(at)!;
    if (codePoint > 0xffff) at++;
    counts[codePoint]! += step;
    if (isSpace[codePoint] !== 1) characters++;
  }
  return characters;
}

/** Finds the characters that occur less often in all pieces of `decoded` together than in `text`. */
export function lossOf(text: string, decoded: Iterable<string>, withSpace = false): Loss {
  const pieces = [...decoded];
  const characters = count(text, 1);
  for (const piece of pieces) count(piece, -1);
  const lost = new Map<number, number>();
  for (const each of text) {
    const codePoint = each.codePointAt(0)!;
    if (counts[codePoint]! > 0 && (withSpace || isSpace[codePoint] !== 1)) lost.set(codePoint, counts[codePoint]!);
    counts[codePoint] = 0;
  }
  for (const piece of pieces) for (const each of piece) counts[each.codePointAt(0)!] = 0;
  return { characters, lost };
}

export const noLoss: Loss = { characters: 0, lost: new Map() };

export function sumOf(losses: Iterable<Loss>): Loss {
  let characters = 0;
  const lost = new Map<number, number>();
  for (const each of losses) {
    characters += each.characters;
    for (const [codePoint, times] of each.lost) lost.set(codePoint, (lost.get(codePoint) ?? 0) + times);
  }
  return { characters, lost };
}

const timesOf = ({ lost }: Loss): number => [...lost.values()].reduce((sum, times) => sum + times, 0);

/** Lost characters as a share of all characters, from 0 to 1. */
export const lostShare = (loss: Loss): number => timesOf(loss) / Math.max(1, loss.characters);

/** A share as a percentage of two digits: "0.35%". */
export const percent = (share: number): string => `${Number((100 * share).toPrecision(2))}%`;

/** A character in messages: "é" (U+00E9). */
export const characterName = (codePoint: number): string =>
  `${JSON.stringify(String.fromCodePoint(codePoint))} (U+${codePoint.toString(16).toUpperCase().padStart(4, '0')})`;

/** A loss in messages: "12 of 3,400 characters (0.35%), such as "é" (U+00E9) × 7". */
export function describeLoss(loss: Loss): string {
  const number = (value: number) => value.toLocaleString('en-US');
  const examples = [...loss.lost].sort(([, a], [, b]) => b - a).slice(0, 5);
  const shown = examples.map(([codePoint, times]) => `${characterName(codePoint)} × ${number(times)}`).join(', ');
  return `${number(timesOf(loss))} of ${number(loss.characters)} characters (${percent(lostShare(loss))}), such as ${shown}`;
}
