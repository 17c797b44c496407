// The matrices that norms write and matmuls with weights read, in all layouts for which there is memory (activations.ts), and
// memory for weights in FP8. The layouts decide which matmuls are in FP8 (linear.ts, head.ts).
import type { Tensor } from '../native/tensor.ts';
import type { ActivationTensors } from './activation-tables.ts';

/** A copy in FP8: values, and a scale for each row, or for each block of rows of a columnwise copy. */
export interface Fp8Matrix {
  readonly values: Tensor;
  readonly scale: Tensor;
  /** The norm of each row, or the largest in each block of rows; undefined for the MLP's activation and its gradient. */
  readonly norm?: Tensor | undefined;
}

/** A matrix in up to three layouts. */
export interface Operand {
  /** In the device's dtype. */
  readonly plain?: Tensor | undefined;
  /** For matmuls with a weight. */
  readonly rowwise?: Fp8Matrix | undefined;
  /** For gradients of weights, which sum over rows. */
  readonly columnwise?: Fp8Matrix | undefined;
}

export interface Fp8Weight {
  /** For the next matmul. */
  readonly values: Tensor;
  readonly factors: Tensor;
  /** The copy that forward makes for backward. Absent: backward quantises the weight again, into `values`. */
  readonly kept?: { readonly transposed: Tensor; readonly factors: Tensor } | undefined;
}

/** The layout of a matrix that a matmul needs. @throws Error if the matrix does not have it */
export function need<L extends keyof Operand>(operand: Operand, layout: L): NonNullable<Operand[L]> {
  const found = operand[layout];
  if (!found) throw new Error(`a matmul needs a matrix in ${layout} layout, for which there is no memory`);
  return found;
}

/** A copy with its norms, which a matmul needs. @throws Error if the copy has none */
export function withNorm({ norm, ...copy }: Fp8Matrix): Fp8Matrix & { readonly norm: Tensor } {
  if (!norm) throw new Error(`a matmul needs the norms of ${copy.values.name}, for which there is no memory`);
  return { ...copy, norm };
}

/** The layouts of each matrix. Layers share the memory of rowwise copies, except the squared ReLU's output, which backward reads. */
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
    /** Memory for any weight, and for the head's. */
    weightFp8,
    headFp8: keeping(fp8.headTransposed, fp8.factors),
  };
}

/** The copy whose values have this name, if there is memory for it. */
function copyOf<T extends object>(tensors: T | undefined, name: keyof T & string): Fp8Matrix | undefined {
  const all = (tensors ?? {}) as Readonly<Record<string, Tensor | undefined>>;
  const { [name]: values, [`${name}Scale`]: scale, [`${name}Norm`]: norm } = all;
  return values && scale && { values, scale, norm };
}
