// Operands of matmuls: activations and gradients in all layouts for which there is memory (activation-tables.ts), and memory for FP8
// weights. A matmul runs in FP8 if its operands have FP8 layouts (linear.ts, head.ts).
import type { Tensor } from '../native/tensor.ts';
import type { ActivationTensors } from './activation-tables.ts';

/** An FP8 copy of a matrix: values, and one scale for each row (rowwise copy) or each block of 512 rows (columnwise copy). */
export interface Fp8Matrix {
  readonly values: Tensor;
  readonly scale: Tensor;
  /** The L2 norm of each row, or the largest norm in each block of rows. Undefined for the MLP's activation and its gradient. */
  readonly norm?: Tensor | undefined;
}

/** A matrix in up to three layouts, each undefined if there is no memory for it. */
export interface Operand {
  /** Row-major, in the device's element type: fp32 or bf16. */
  readonly plain?: Tensor | undefined;
  /** FP8 with a scale for each row, for matmuls with a weight. */
  readonly rowwise?: Fp8Matrix | undefined;
  /** FP8, transposed, with a scale for each block of 512 rows, for weight gradients, which sum over rows. */
  readonly columnwise?: Fp8Matrix | undefined;
}

export interface Fp8Weight {
  /** Memory for the FP8 values of the weight in the next matmul; may be shared with other weights. */
  readonly values: Tensor;
  readonly factors: Tensor;
  /** Memory for the transposed copy that forward makes for backward. If absent, backward quantises the weight again. */
  readonly kept?: { readonly transposed: Tensor; readonly factors: Tensor } | undefined;
}

/** A matrix in the layout that a matmul needs. @throws Error if the matrix lacks this layout */
export function need<L extends keyof Operand>(operand: Operand, layout: L): NonNullable<Operand[L]> {
  const found = operand[layout];
  if (!found) throw new Error(`a matmul needs a matrix in ${layout} layout, for which there is no memory`);
  return found;
}

/** Checks that an FP8 copy has the norms that a matmul needs. @throws Error if not */
export function withNorm({ norm, ...copy }: Fp8Matrix): Fp8Matrix & { readonly norm: Tensor } {
  if (!norm) throw new Error(`a matmul needs the norms of ${copy.values.name}, for which there is no memory`);
  return { ...copy, norm };
}

/** Operands by name. All layers share rowwise FP8 memory, except for the squared ReLU's output, which backward reads. */
export function operandsOf({ model, layers, backward, fp8 }: ActivationTensors) {
  const ofNorm = copyOf(fp8, 'normRowwise');
  const mlp = copyOf(fp8, 'mlpRowwise');
  const weightFp8: Fp8Weight | undefined = fp8.weight && fp8.factors && { values: fp8.weight, factors: fp8.factors };
  const keeping = (transposed: Tensor | undefined, factors: Tensor | undefined): Fp8Weight | undefined =>
    weightFp8 && { ...weightFp8, kept: transposed && factors && { transposed, factors } };
  return {
    layers: layers.map((layer) => ({
      ln1: { plain: layer.ln1, rowwise: ofNorm },
      ln2: { plain: layer.ln2, rowwise: ofNorm, columnwise: copyOf(layer, 'ln2Columnwise') },
      activated: {
        plain: layer.activated,
        rowwise: copyOf(layer, 'activatedRowwise') ?? mlp,
        columnwise: copyOf(layer, 'activatedColumnwise'),
      },
      fcFp8: keeping(layer.fcTransposed, layer.fcFactors),
      fcprojFp8: keeping(layer.fcprojTransposed, layer.fcprojFactors),
    })),
    lnf: { plain: model.lnf, rowwise: ofNorm },
    dresidual: {
      plain: backward?.dresidual,
      rowwise: copyOf(backward, 'dresidualRowwise'),
      columnwise: copyOf(backward, 'dresidualColumnwise'),
    },
    dfc: { plain: backward?.dfc, rowwise: mlp, columnwise: copyOf(backward, 'dfcColumnwise') },
    /** Memory for one weight in FP8. `headFp8` adds memory for the head's transposed weight. */
    weightFp8,
    headFp8: keeping(fp8.headTransposed, fp8.factors),
  };
}

/** The FP8 copy whose tensors are named `name`, `nameScale` and perhaps `nameNorm`; undefined if there is no memory for them. */
function copyOf<T extends object>(tensors: T | undefined, name: keyof T & string): Fp8Matrix | undefined {
  const all = (tensors ?? {}) as Readonly<Record<string, Tensor | undefined>>;
  const { [name]: values, [`${name}Scale`]: scale, [`${name}Norm`]: norm } = all;
  return values && scale && { values, scale, norm };
}
