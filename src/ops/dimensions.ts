// The shape check of every op. An op states the pattern of each tensor ("N C"), gets the sizes of the letters back, and
// a mismatch becomes a sentence that names the tensor, the dimension and both sizes.
import { ShapeError } from '../errors.ts';
import type { ElementType, Tensor } from '../native/buffer.ts';

/** The letters of cuda/gpt2.h; C3 is 3C. */
type Letter = 'B' | 'T' | 'S' | 'N' | 'C' | 'C3' | 'O' | 'V' | 'NH' | 'HS';

/** A tensor, its element type, and its dimensions as letters. Dimensions before the pattern's fold into its first letter. */
type Pattern = readonly [tensor: Tensor | null, type: ElementType, letters: string];

/**
 * Checks tensors against patterns and gives the size of each letter.
 * @throws ShapeError naming op, tensor and dimension, or the tensors that are on two devices
 */
export function dimensions(op: string, patterns: Record<string, Pattern>): Record<Letter, number> {
  const sizes = new Map<string, { size: number; from: string }>();
  let first: { name: string; device: Tensor['device'] } | undefined;
  for (const [name, [tensor, type, pattern]] of Object.entries(patterns)) {
    if (tensor === null) continue;
    first ??= { name, device: tensor.device };
    if (tensor.device !== first.device) {
      throw new ShapeError(`${op}: ${name} and ${first.name} are on different devices`);
    }
    const letters = pattern.split(' ');
    if (tensor.type !== type)
      throw new ShapeError(`${op}: ${name} must be ${type}, but ${tensor.name} is ${tensor.type}`);
    if (tensor.shape.length < letters.length) {
      throw new ShapeError(`${op}: ${name} must be [${letters}], but ${tensor.name} is [${tensor.shape}]`);
    }
    const folded = tensor.shape.length - letters.length;
    const rows = tensor.shape.slice(0, folded + 1).reduce((product, size) => product * size, 1);
    const shape = [rows, ...tensor.shape.slice(folded + 1)];
    letters.forEach((letter, dimension) => {
      const size = shape[dimension]!;
      const known = sizes.get(letter);
      if (!known) {
        sizes.set(letter, { size, from: name });
      } else if (known.size !== size) {
        throw new ShapeError(
          `${op}: ${name} [${letters}] has ${letter} = ${size}, but ${known.from} has ${letter} = ${known.size}`,
        );
      }
    });
  }
  return Object.fromEntries([...sizes].map(([letter, { size }]) => [letter, size])) as Record<Letter, number>;
}

/** Checks that two letters stand in a fixed relation, such as C3 = 3C. @throws ShapeError */
export function expect(op: string, holds: boolean, text: string): void {
  if (!holds) throw new ShapeError(`${op}: ${text}`);
}
