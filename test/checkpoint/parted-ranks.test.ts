// Gathers parts of ranks for a checkpoint or a hash: if a rank ends before it has sent its part, neither is made. Each rank is
// a process on the CPU, and on GPUs where there are two.
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Device, weightsHash } from '../../src/index.ts';
import { verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import type { RankTask } from '../support/collective-rank.ts';
import { type Circumstances, gpuCount, together } from '../support/collectives.ts';
import { fillCopy } from '../support/collectives-start.ts';
import { drawnModel } from '../support/tiny-model.ts';
import { manifestFields, temporaryFolders } from './trained-model.ts';

describe.each([
  ['cpu', 'cpu', 2],
  ['cuda (needs two GPUs)', 'cuda', gpuCount],
] as const)('ranks on %s', (_, kind, devices) => {
  const temporaryFolder = temporaryFolders();

  /** The folder of checkpoints after it, and what each rank answered. */
  async function gather(ops: readonly RankTask['op'][]) {
    const folder = temporaryFolder();
    const head = { folder, step: 1, manifest: manifestFields };
    const circumstances: Circumstances = { kind, env: { CHECKPOINT_HEAD: JSON.stringify(head) } };
    return { folder, answers: await together(ops, 7, circumstances) };
  }

  it.skipIf(devices < 2)('save what all of them have given', async () => {
    const { folder, answers } = await gather(['save', 'save']);
    for (const { error } of answers) expect(error).toBeUndefined();
    verifyCheckpoint(`${folder}/step-00000001`);
  });

  it.skipIf(devices < 2)('hash what all of them have given', async () => {
    using device = Device.open({ kind: 'cpu' });
    const model = drawnModel(device);
    fillCopy(model.masters);
    const hash = [...Buffer.from(await weightsHash(model), 'hex')];
    expect((await gather(['hash', 'hash'])).answers).toEqual([{ values: hash }, { values: hash }]);
  });

  it.skipIf(devices < 2).each(['save', 'hash'] as const)('make no %s of parts that may be missing', async (op) => {
    const { folder, answers } = await gather([`abandoned ${op}`, op]);
    expect(answers[0]!.error).toMatch(/the communicator is closed: a rank has ended/);
    expect(readdirSync(folder)).toEqual([]);
  });
});
