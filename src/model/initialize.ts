// The initial weights, equal to what llm.c and PyTorch draw from the same seed: the order of draws is part of it.
import { Generator } from '../native/generator.ts';
import { castWeights, type Model } from './model.ts';
import { parameterTable, realCount } from './parameters.ts';

/** Fills all weights: matrices drawn in the table's order (real rows only), vectors by their value, padding zero. */
export function initializeWeights(model: Model, seed: number): void {
  using generator = new Generator(model.device.description.library, seed);
  for (const parameter of parameterTable(model.config)) {
    const { initial } = parameter;
    const values = new Float32Array(realCount(parameter));
    if ('value' in initial) values.fill(initial.value);
    else generator.normal(values, 0, initial.standardDeviation);
    model.masters.write(parameter, values);
  }
  castWeights(model);
}
