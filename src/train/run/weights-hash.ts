// Hashes all weights, to show that two runs are equal in every bit. The weights are hashed in device layout, [out, in], so the hash
// differs from the hash of any weights file.
import { createHash } from 'node:crypto';
import { checkArguments } from '../../base/checks/given.ts';
import type { Model } from '../../model/model.ts';
import { parameterTable } from '../../model/parameters.ts';

/**
 * sha256 over the fp32 master weights, tensor by tensor in the order of `parameterTable`, without padding rows. Waits for training
 * steps that were not awaited. With several ranks, all ranks must call this function at the same time.
 * @throws NativeError if another rank ends meanwhile
 * @example console.log(await weightsHash(model));
 */
export async function weightsHash(model: Model): Promise<string> {
  checkArguments({ model });
  const { activations, config, masters } = model;
  return activations.inTurn(async () => {
    const hash = createHash('sha256');
    for (const parameter of parameterTable(config)) {
      hash.update(new Uint8Array((await masters.readWhole(parameter)).buffer));
    }
    return hash.digest('hex');
  });
}
