// Multiple-choice questions for tests: random ones, and ones about counting, which a tiny model learns by heart.
import type { Batch } from '../../src/data/batches/loader.ts';
import type { Question } from '../../src/data/shards/multiple-choice.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';

/** Four completions each; contexts of up to `longest` tokens. */
export function randomQuestions(
  count: number,
  { vocabulary, longest = 40, seed = 1 }: { vocabulary: number; longest?: number; seed?: number },
): Question[] {
  const random = new Random(seed);
  const tokens = (most: number) =>
    Uint16Array.from(random.integers(1 + Math.floor(random.uniform() * most), vocabulary));
  return Array.from({ length: count }, (_, index) => ({
    label: (index * 7) % 4,
    context: tokens(longest),
    completions: Array.from({ length: 4 }, () => tokens(12)),
  }));
}

const counting = (from: number, length: number, vocabulary: number) =>
  Uint16Array.from({ length }, (_, index) => (from + index) % vocabulary);

/** The right completion is the next number; the other completions jump or stand still. */
export function countingQuestions(count: number, vocabulary: number): Question[] {
  return Array.from({ length: count }, (_, index) => {
    const next = index + 6;
    const wrong = [
      counting(next + 9, 3, vocabulary),
      Uint16Array.from([next, next, next], (token) => token % vocabulary),
      counting(next + 20, 5, vocabulary),
    ];
    const label = index % 4;
    const completions = [...wrong.slice(0, label), counting(next, 4, vocabulary), ...wrong.slice(label)];
    return { label, context: counting(index, 6, vocabulary), completions };
  });
}

/** A batch of rows that count, from which a model learns to. */
export function countingBatch(rows: number, sequence: number, vocabulary: number, seed: number): Batch {
  const starts = new Random(seed).integers(rows, vocabulary);
  const at = (shift: number) =>
    Int32Array.from({ length: rows * sequence }, (_, index) => {
      const row = Math.floor(index / sequence);
      return (starts[row]! + (index % sequence) + shift) % vocabulary;
    });
  return { inputs: at(0), targets: at(1) };
}
