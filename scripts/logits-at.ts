// Computes the logits of a position from the state that `forward` leaves on the device, for checks against other programs.
import { fromBf16 } from '../src/base/files/half-floats.ts';
import type { ActivationSet } from '../src/model/activations.ts';
import { architectureOf } from '../src/model/architecture.ts';
import { headOf } from '../src/model/head.ts';
import { linearForward } from '../src/model/linear.ts';
import type { Model } from '../src/model/model.ts';
import { softcapForward } from '../src/ops/ops.generated.ts';

/** [V], on the host. `forward` must have run before. */
export function logitsAt({ device, config, weights }: Model, batch: ActivationSet, position: number): Float32Array {
  const { lnf, logits } = batch.model;
  const [, padded] = logits.shape as [number, number];
  const width = config.channels;
  const row = logits.view([1, padded]);
  linearForward(device, {
    out: { plain: row },
    in: { plain: lnf.view([1, width], position * width) },
    ...headOf(weights),
  });
  const { softcap: cap } = architectureOf(config);
  if (cap > 0) softcapForward(device, { out: row, in: row, cap });
  const values = row.view([config.vocabularySize]).read();
  return values instanceof Uint16Array ? fromBf16(values) : Float32Array.from(values);
}
