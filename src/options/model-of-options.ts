// The model that options describe.
import { otherThanGpt2 } from '../model/architecture.ts';
import { checkConfig, defaultContext, gpt2VocabularySize, type ModelConfig, presetConfig } from '../model/config.ts';
import type { DefaultedOptions } from './table.ts';

/**
 * @param options with the parts of the weights filled in
 * @param weights the model of the weights that the run starts from; undefined for a new model
 * @throws UsageError as `checkConfig`
 */
export function modelOf(
  options: Omit<DefaultedOptions, 'batch'>,
  weights?: ModelConfig,
  vocabularySize: number = gpt2VocabularySize,
): ModelConfig {
  // A custom model has --layers, --channels and --heads.
  const base = weights ?? { context: defaultContext, ...presetConfig(options.model), vocabularySize };
  const { layers = base.layers!, channels = base.channels!, heads = base.heads!, context = base.context } = options;
  return checkConfig({
    ...{ layers, channels, heads, context, vocabularySize: base.vocabularySize },
    ...otherThanGpt2(options),
  });
}
