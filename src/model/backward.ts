// GPT-2's backward pass: forward.ts read from the end. `dresidual` carries the gradient of the residual stream from
// layer to layer; each branch adds its own through the layernorm that opens it.

import {
  attentionBackward,
  embeddingBackward,
  layernormBackward,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulGeluBackwardInput,
} from '../ops/ops.generated.ts';
import type { ActivationSet } from './activations.ts';
import type { ParameterArena } from './arena.ts';
import { recomputeLayer, residualBefore } from './forward.ts';
import type { Model } from './model.ts';

/**
 * From the head's gradient in `batch.backward.dbranch` (of lnf) to the gradient of every parameter. The head has already
 * written wte's gradient; all others are overwritten, or added to if `accumulate`. `layerDone` is told when what comes next
 * leaves a layer's gradients alone.
 */
export function backward(
  model: Model,
  batch: ActivationSet,
  gradients: ParameterArena,
  { accumulate, layerDone }: { accumulate: boolean; layerDone?: (layer: number) => void },
): void {
  const { device, config, weights } = model;
  if (!batch.backward) throw new Error('these activations were made for inference');
  const { dresidual, dbranch, dqkv, dfc } = batch.backward;
  const { tokens, lnfMean, lnfRstd } = batch.model;

  layernormBackward(device, {
    din: dresidual,
    dweight: gradients.get('lnfw'),
    dbias: gradients.get('lnfb'),
    dout: dbranch,
    dresidual: null,
    in: batch.layers.at(-1)!.residual3,
    weight: weights.get('lnfw'),
    mean: lnfMean,
    rstd: lnfRstd,
    accumulate,
  });

  for (const [index, layer] of [...batch.layers.entries()].reverse()) {
    const w = weights.layer(index);
    const d = gradients.layer(index);
    recomputeLayer(model, batch, index);

    matmulBackwardWeight(device, {
      dweight: d.fcprojw,
      dbias: d.fcprojb,
      dout: dresidual,
      in: layer.gelu,
      accumulate,
    });
    matmulGeluBackwardInput(device, { din: dfc, dout: dresidual, weight: w.fcprojw, pre: layer.fc });
    matmulBackwardWeight(device, { dweight: d.fcw, dbias: d.fcb, dout: dfc, in: layer.ln2, accumulate });
    matmulBackwardInput(device, { din: dbranch, dout: dfc, weight: w.fcw });
    layernormBackward(device, {
      din: dresidual,
      dweight: d.ln2w,
      dbias: d.ln2b,
      dout: dbranch,
      dresidual,
      in: layer.residual2,
      weight: w.ln2w,
      mean: layer.ln2Mean,
      rstd: layer.ln2Rstd,
      accumulate,
    });

    matmulBackwardWeight(device, {
      dweight: d.attprojw,
      dbias: d.attprojb,
      dout: dresidual,
      in: layer.attention,
      accumulate,
    });
    matmulBackwardInput(device, { din: dbranch, dout: dresidual, weight: w.attprojw });
    attentionBackward(device, { dqkv, dout: dbranch, out: layer.attention, qkv: layer.qkv, lse: layer.lse });
    matmulBackwardWeight(device, { dweight: d.qkvw, dbias: d.qkvb, dout: dqkv, in: layer.ln1, accumulate });
    matmulBackwardInput(device, { din: dbranch, dout: dqkv, weight: w.qkvw });
    layernormBackward(device, {
      din: dresidual,
      dweight: d.ln1w,
      dbias: d.ln1b,
      dout: dbranch,
      dresidual,
      in: residualBefore(batch, index),
      weight: w.ln1w,
      mean: layer.ln1Mean,
      rstd: layer.ln1Rstd,
      accumulate,
    });
    layerDone?.(index);
  }

  embeddingBackward(device, {
    dwte: gradients.get('wte'),
    dwpe: gradients.get('wpe'),
    dout: dresidual,
    tokens,
    V: config.vocabularySize,
    accumulate,
  });
}
