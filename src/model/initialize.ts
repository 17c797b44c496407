// Draws initial weights with the random generator and in the order of llm.c and PyTorch, so that equal seeds give equal weights.
import { checkArguments, checkValue, whole } from '../base/checks/given.ts';
import { openGenerator } from '../native/generator.ts';
import { castWeights, checkIdle, type Model } from './model.ts';
import { parameterTable, realCount } from './parameters.ts';

/**
 * Fills all weights. For GPT-2: matrices with normal random numbers, biases with 0, layernorm weights with 1, padding rows with 0.
 * @param seed a whole number from 0 to 2^32 - 1. The weights equal PyTorch's for this seed, to 1e-7
 * @throws UsageError for a seed outside this range
 * @example initializeWeights(model, 42);
 */
export function initializeWeights(model: Model, seed: number): void {
  checkArguments({ model });
  checkValue('seed', whole(0, 2 ** 32 - 1), seed);
  checkIdle(model);
  using generator = openGenerator(model.device.description.library, seed);
  for (const parameter of parameterTable(model.config)) {
    const { initial } = parameter;
    const values = new Float32Array(realCount(parameter));
    if ('value' in initial) values.fill(initial.value);
    else if ('values' in initial) values.set(initial.values);
    else generator.normal(values, 0, initial.standardDeviation);
    model.masters.write(parameter, values);
  }
  castWeights(model);
}
