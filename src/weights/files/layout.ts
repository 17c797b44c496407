// Converts between tensors in memory and stored ones (Hugging Face's layout): padding rows are not stored, and linear weights,
// [out, in] in memory, are stored as [in, out].
import { Gpt2Error } from '../../base/errors.ts';
import { type Parameter, realCount } from '../../model/parameters.ts';

/** A weight is NaN or infinite. */
export class WeightsError extends Gpt2Error {
  override readonly name = 'WeightsError';
}

/** Refuses values that are not finite. The loop takes a tenth of the time of `findIndex`. @throws WeightsError */
export function finite(
  { huggingFaceName }: Parameter,
  values: Float32Array,
  where: string,
  advice: string,
): Float32Array {
  let index = 0;
  while (index < values.length && Number.isFinite(values[index])) index++;
  if (index === values.length) return values;
  throw new WeightsError(`${huggingFaceName} has ${values[index]} at ${index}`, { where, advice });
}

export function storedShape({ shape, rows, transposed }: Parameter): number[] {
  const stored = [rows, ...shape.slice(1)];
  return transposed ? stored.reverse() : stored;
}

/** Converts a parameter without its padding rows from the layout in memory to the stored one. */
export const toStored = (parameter: Parameter, values: Float32Array): Float32Array =>
  parameter.transposed ? transpose(values, parameter.rows, values.length / parameter.rows) : values;

/** The inverse of `toStored`. If the stored table has more rows, such as more positions, takes the first rows. */
export const fromStored = (parameter: Parameter, stored: Float32Array): Float32Array =>
  parameter.transposed
    ? transpose(stored, stored.length / parameter.rows, parameter.rows)
    : stored.subarray(0, realCount(parameter));

/** Transposes in blocks, so that values stay in the cache while the output is written in order. */
function transpose(values: Float32Array, rows: number, columns: number): Float32Array {
  const block = 32;
  const out = new Float32Array(values.length);
  for (let column = 0; column < columns; column += block) {
    for (let row = 0; row < rows; row += block) {
      const rowEnd = Math.min(row + block, rows);
      const columnEnd = Math.min(column + block, columns);
      for (let c = column; c < columnEnd; c++)
        for (let r = row, from = row * columns + c; r < rowEnd; r++, from += columns) out[c * rows + r] = values[from]!;
    }
  }
  return out;
}
