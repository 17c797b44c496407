// What norms write and products with weights read: each matrix in the forms that it has memory in (activations.ts), and memory for
// weights in FP8. Which forms there are decides which products are in FP8 (linear.ts, mlp.ts, head.ts).
import type { Tensor } from '../native/tensor.ts';
import type { ActivationTensors } from './activation-tables.ts';

/** A copy in FP8: values, and a scale for each row, or for each block of rows of a columnwise copy. */
export interface Fp8Matrix {
  readonly values: Tensor;
  readonly scale: Tensor;
  /** Of each row, or the largest of each block. An activation's output and gradient have none: nothing reads it. */
  readonly norm?: Tensor | undefined;
}

/** A matrix in the forms that it is stored in. */
export interface Operand {
  /** In the device's dtype. */
  readonly plain?: Tensor | undefined;
  /** For products with a weight. */
  readonly rowwise?: Fp8Matrix | undefined;
  /** For gradients of weights, which sum over rows. */
  readonly columnwise?: Fp8Matrix | undefined;
}

/** Memory for a weight in FP8. */
export interface Fp8Weight {
  /** For the next product. */
  readonly values: Tensor;
  readonly factors: Tensor;
  /** What forward's product stores for backward's. Absent: backward quantises the weight again, into `values`. */
  readonly kept?: { readonly transposed: Tensor; readonly factors: Tensor } | undefined;
}

/** A form that a product needs. */
export function need<F extends keyof Operand>(operand: Operand, form: F): NonNullable<Operand[F]> {
  const found = operand[form];
  if (!found) throw new Error(`a product needs a matrix in ${form} form, which there is no memory for`);
  return found;
}

/** A copy whose norms a product needs. */
export function withNorm({ norm, ...copy }: Fp8Matrix): Fp8Matrix & { readonly norm: Tensor } {
  if (!norm) throw new Error(`a product needs the norms of ${copy.values.name}, which there is no memory for`);
  return { ...copy, norm };
}

/** Layers share the memory of rowwise copies, except of the squared ReLU's output, which backward reads. */
export function operandsOf({ model, layers, backward, fp8 }: ActivationTensors) {
  const ofNorm = copyOf(fp8.normRowwise, fp8.normRowwiseScale, fp8.normRowwiseNorm);
  const mlp = copyOf(fp8.mlpRowwise, fp8.mlpRowwiseScale);
  const weightFp8: Fp8Weight | undefined = fp8.weight && fp8.factors && { values: fp8.weight, factors: fp8.factors };
  const keeping = (transposed: Tensor | undefined, factors: Tensor | undefined): Fp8Weight | undefined =>
    weightFp8 && { ...weightFp8, kept: transposed && factors && { transposed, factors } };
  return {
    layers: layers.map((layer) => ({
      ln1: { plain: layer.ln1, rowwise: ofNorm },
      ln2: {
        plain: layer.ln2,
        rowwise: ofNorm,
        columnwise: copyOf(layer.ln2Columnwise, layer.ln2ColumnwiseScale, layer.ln2ColumnwiseNorm),
      },
      activated: {
        plain: layer.activated,
        rowwise: copyOf(layer.activatedRowwise, layer.activatedRowwiseScale) ?? mlp,
        columnwise: copyOf(layer.activatedColumnwise, layer.activatedColumnwiseScale),
      },
      fcFp8: keeping(layer.fcTransposed, layer.fcFactors),
      fcprojFp8: keeping(layer.fcprojTransposed, layer.fcprojFactors),
    })),
    lnf: { plain: model.lnf, rowwise: ofNorm },
    dresidual: {
      plain: backward?.dresidual,
      rowwise: copyOf(backward?.dresidualRowwise, backward?.dresidualRowwiseScale, backward?.dresidualRowwiseNorm),
      columnwise: copyOf(
        backward?.dresidualColumnwise,
        backward?.dresidualColumnwiseScale,
        backward?.dresidualColumnwiseNorm,
      ),
    },
    dfc: {
      plain: backward?.dfc,
      rowwise: mlp,
      columnwise: copyOf(backward?.dfcColumnwise, backward?.dfcColumnwiseScale),
    },
    /** For any weight. */
    weightFp8,
  };
}

const copyOf = (values?: Tensor, scale?: Tensor, norm?: Tensor): Fp8Matrix | undefined =>
  values && scale && { values, scale, norm };
