// Puts a checkpoint's weights and moments back into a model.
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import type { ModelConfig } from '../model/config.ts';
import { castWeights, type Model } from '../model/model.ts';
import { type ParameterArena, parameterTable } from '../model/parameters.ts';
import type { FoundCheckpoint } from './directory.ts';
import { fromStored, storedShape } from './layout.ts';
import { optimizerFile, weightsFile } from './manifest.ts';
import { openSafetensors, type SafetensorsFile } from './safetensors.ts';
import type { Moments } from './write.ts';

/** @throws Gpt2Error if the checkpoint is of another model, naming what differs, or a tensor does not fit */
export function loadWeights({ path, manifest }: FoundCheckpoint, model: Model): void {
  checkModel(path, manifest.model, model.config);
  using file = openSafetensors(join(path, weightsFile));
  checkNames(join(path, weightsFile), file, parameterTable(model.config).map(({ huggingFaceName }) => huggingFaceName));
  loadArena(file, model.config, model.masters, '');
  castWeights(model);
}

/** @throws Gpt2Error likewise */
export function loadMoments({ path, manifest }: FoundCheckpoint, { m, v }: Moments, config: ModelConfig): void {
  checkModel(path, manifest.model, config);
  using file = openSafetensors(join(path, optimizerFile));
  loadArena(file, config, m, 'm.');
  loadArena(file, config, v, 'v.');
}

function loadArena(file: SafetensorsFile, config: ModelConfig, arena: ParameterArena, prefix: string): void {
  for (const parameter of parameterTable(config)) {
    const name = `${prefix}${parameter.huggingFaceName}`;
    const found = file.shape(name);
    const wanted = storedShape(parameter);
    if (found.join() !== wanted.join()) throw new Gpt2Error(`${name} is [${found}] in the checkpoint, not [${wanted}]`);
    fromStored(parameter, arena.get(parameter.name), file.read(name));
  }
}

function checkModel(path: string, found: ModelConfig, wanted: ModelConfig): void {
  const differences = (Object.keys(wanted) as (keyof ModelConfig)[])
    .filter((name) => found[name] !== wanted[name])
    .map((name) => `${name} ${found[name]} instead of ${wanted[name]}`);
  if (differences.length > 0) throw new Gpt2Error(`${path} is of another model: ${differences.join(', ')}`);
}

function checkNames(path: string, file: SafetensorsFile, wanted: readonly string[]): void {
  const extra = file.names.find((name) => !wanted.includes(name));
  if (extra) throw new Gpt2Error(`${path} has a tensor ${extra} that GPT-2 has not`);
}
