// Makes a tiny model in the state that training leaves, and the manifest fields of a run. Shared by the tests of this folder.
import { mkdtempSync } from 'node:fs';
import { vi } from 'vitest';
import { AdamW, Device, type ModelConfig, parameterTable } from '../../src/index.ts';
import type { ParameterCopy } from '../../src/model/arena.ts';
import { castWeights, createModel, type Model } from '../../src/model/model.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { OptimizerState, type StateCopy } from '../../src/optimizer/state.ts';
import { type CheckpointToWrite, writeCheckpoint } from '../../src/weights/checkpoint/write.ts';
import { workplace } from '../support/cli.ts';
import { tinyConfig } from '../support/tiny-model.ts';

export interface Trained {
  readonly model: Model;
  readonly optimizer: readonly StateCopy[];
}

/** A model and AdamW's state, all zero. */
export function emptyModel(device: Device, config: ModelConfig = tinyConfig): Trained {
  const model = createModel(device, config, { B: 1, T: 16, purpose: 'inference' });
  return { model, optimizer: new OptimizerState(model, new AdamW({ weightDecay: 0 })).copies };
}

/** A model and AdamW's state with values drawn from a seed, in the real rows. */
export function trainedModel(device: Device, seed = 1, config: ModelConfig = tinyConfig): Trained {
  const trained = emptyModel(device, config);
  const random = new Random(seed);
  for (const arena of arenasOf(trained)) {
    for (const { name, shape, rows } of parameterTable(config)) {
      const tensor = arena.get(name);
      tensor.write(random.normals((tensor.count / shape[0]!) * rows));
    }
  }
  castWeights(trained.model);
  return trained;
}

/** A checkpoint of `trainedModel`, changed, in a folder. Gives its path, and every value by name. */
export function writtenModel(folder: string, config = tinyConfig, change: (model: Model) => void = () => {}, step = 1) {
  using device = Device.open({ kind: 'cpu' });
  const trained = trainedModel(device, 1, config);
  change(trained.model);
  const path = writeUnchecked({ folder, step, ...trained, manifest: manifestFields });
  return { path, content: contentOf(trained) };
}

/** As `writeCheckpoint`, also of weights that are not finite, which earlier versions saved. */
export function writeUnchecked(checkpoint: CheckpointToWrite): string {
  const check = vi.spyOn(Number, 'isFinite').mockReturnValue(true);
  const path = writeCheckpoint(checkpoint);
  check.mockRestore();
  return path;
}

export const arenasOf = ({ model, optimizer }: Trained): ParameterCopy[] => [
  model.masters,
  ...optimizer.map(({ copy }) => copy),
];

/** Every element of weights and state, including padding, by name. */
export const contentOf = (trained: Trained): Record<string, Float32Array> =>
  Object.fromEntries(
    arenasOf(trained).flatMap((arena, index) =>
      parameterTable(trained.model.config).map(({ name }) => [`${index}/${name}`, floats(arena.get(name))]),
    ),
  );

/** The description that a run records. */
export const manifestFields: CheckpointToWrite['manifest'] = {
  program: 'gpt2.ts test',
  configuration: { model: 'tiny', learningRate: 3e-4 },
  position: { epoch: 1, shard: 0, sample: 17 },
  logBytes: 1234,
  codePath: 'portable',
  shards: [{ name: 'tiny_train.bin', tokens: 999 }],
};

/** No process has this number: it is over the largest that Linux gives. */
export const deadProcess = 4194305;

/** Gives a fresh folder; those given are removed after each test. */
export function temporaryFolders(): () => string {
  const place = workplace('each');
  return () => mkdtempSync(place.path('new-'));
}
