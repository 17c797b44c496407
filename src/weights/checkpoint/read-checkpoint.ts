// Loads a checkpoint's weights and optimizer state into a model. All names and shapes are compared before the first tensor is
// written, so a rejected file leaves the model unchanged. directory.ts finds and verifies the checkpoint.
import { join } from 'node:path';
import { checkArguments } from '../../base/checks/given.ts';
import { gpt2Error, quote, shortList } from '../../base/errors.ts';
import { architectureOf } from '../../model/architecture.ts';
import type { ModelConfig } from '../../model/config.ts';
import { castWeights, checkIdle, type Model } from '../../model/model.ts';
import { parameterTable } from '../../model/parameters.ts';
import { checkState, type StateCopy } from '../../optimizer/state.ts';
import { fromStored, storedShape } from '../files/layout.ts';
import { optimizerFile, weightsFile } from '../files/names.ts';
import { openSafetensors, type SafetensorsFile, type Values } from '../files/safetensors.ts';
import { readerOf } from '../files/stored-file.ts';
import type { FoundCheckpoint } from './directory.ts';
import type { Manifest } from './manifest.ts';

/**
 * Fills a model's master weights, and the weights that are rounded from them; padding rows become zero. A model with a shorter
 * context takes the first positions.
 * @throws Gpt2Error naming the difference if the checkpoint is of another model, or has other tensors
 * @example loadWeights(resolveCheckpoint('runs/first'), model);
 */
export function loadWeights(
  checkpoint: { readonly path: string; readonly manifest: Pick<Manifest, 'model'> },
  model: Model,
): void {
  checkArguments({ checkpoint, model });
  const { path, manifest } = checkpoint;
  using file = openWeights(path, manifest.model);
  fillWeights(path, { ...file, model: manifest.model }, model);
}

/** As `loadWeights`, from open weights of any format. @param path names the weights in errors */
export function fillWeights(path: string, stored: Pick<Values, 'read'> & { model: ModelConfig }, model: Model): void {
  checkModel(path, stored.model, model.config);
  checkIdle(model);
  for (const parameter of parameterTable(model.config)) model.masters.write(parameter, stored.read(parameter));
  castWeights(model);
}

/** Opens a checkpoint's weights. @throws Gpt2Error unless the file holds the weights of `model`, and no other tensors */
export const openWeights = (path: string, model: ModelConfig) =>
  readerOf(openSafetensors(join(path, weightsFile)), (file): Pick<Values, 'read'> => {
    checkTensors(file, new Map(parameterTable(model).map((each) => [each.huggingFaceName, storedShape(each)])));
    return { read: (parameter) => fromStored(parameter, file.read(parameter.huggingFaceName)) };
  });

/**
 * Fills optimizer state; padding rows become zero.
 * @throws as `loadWeights`
 * @example loadOptimizer(resolveCheckpoint('runs/first'), model, trainer.optimizerState.copies);
 */
export function loadOptimizer(checkpoint: FoundCheckpoint, model: Model, optimizer: readonly StateCopy[]): void {
  checkArguments({ checkpoint, model });
  const { path, manifest } = checkpoint;
  checkModel(path, manifest.model, model.config, false);
  const state = checkState(model, optimizer);
  checkIdle(model);
  const wanted = optimizer.flatMap(({ name, parameters, copy }) =>
    parameters.map((parameter) => ({ name: `${name}.${parameter.huggingFaceName}`, parameter, copy })),
  );
  using file = openSafetensors(join(path, optimizerFile));
  checkTensors(file, new Map(wanted.map(({ name, parameter }) => [name, storedShape(parameter)])));
  for (const { name, parameter, copy } of wanted) copy.write(parameter, fromStored(parameter, file.read(name)));
  state?.changed();
}

/** @param mayShorten whether the model may have a shorter context. @throws Gpt2Error if weights are of another model */
function checkModel(path: string, found: ModelConfig, wanted: ModelConfig, mayShorten = true): void {
  const [stored, other] = [found, wanted].map((config) => ({ ...config, ...architectureOf(config) })) as [
    Required<ModelConfig>,
    Required<ModelConfig>,
  ];
  const fits = (name: keyof ModelConfig) =>
    stored[name] === other[name] || (mayShorten && name === 'context' && stored.context > other.context);
  const differences = (Object.keys(other) as (keyof ModelConfig)[])
    .filter((name) => !fits(name))
    .map((name) => `${name} ${stored[name] ?? 'none'} instead of ${other[name] ?? 'none'}`);
  if (differences.length > 0) throw gpt2Error`${path} is of another model: ${differences.join(', ')}`;
}

function checkTensors(file: SafetensorsFile, wanted: ReadonlyMap<string, readonly number[]>): void {
  const found = new Set(file.names);
  const missing = [...wanted.keys()].filter((name) => !found.has(name));
  const extra = file.names.filter((name) => !wanted.has(name));
  const differences: string[] = [];
  if (missing.length > 0) differences.push(`it lacks ${shortList(missing.map(quote))}`);
  if (extra.length > 0) differences.push(`it also has ${shortList(extra.map(quote))}`);
  for (const [name, shape] of wanted) {
    if (found.has(name) && file.shape(name).join() !== shape.join()) {
      differences.push(`${name} is [${file.shape(name)}], not [${shape}]`);
    }
  }
  if (differences.length === 0) return;
  const shown = differences.slice(0, 4).join('; ');
  const more = differences.length > 4 ? `; and ${differences.length - 4} more` : '';
  throw gpt2Error`${file.path} does not fit the model: ${shown}${more}`;
}
