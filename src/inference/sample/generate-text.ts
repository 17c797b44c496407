import { argumentKinds, checkArguments, checkGiven, whole } from '../../base/checks/given.ts';
import { gpt2Error } from '../../base/errors.ts';
import { KeyValueCache } from '../../model/key-value-cache.ts';
import type { Model } from '../../model/model.ts';
import { checkTokenizer, promptIds, StreamDecoder, type Tokenizer, tokenizerOf } from '../../tokenizer/tokenizer.ts';
import { choiceKinds, describeCut, type GenerateOptions, generate, seedKind } from './generate.ts';

/** Options of `generateText`; some are options of `generate`. */
export interface TextGenerationOptions extends Pick<GenerateOptions, 'temperature' | 'topK' | 'topP' | 'whenFull'> {
  /** Maximum number of tokens to generate. Default 128. */
  readonly tokens?: number | undefined;
  /** The same weights, prompt and seed give the same text. Default 42. */
  readonly seed?: number | undefined;
  /** Default: the built-in tokenizer with the model's vocabulary. For other models `resolveWeights` returns the tokenizer. */
  readonly tokenizer?: Tokenizer | undefined;
  /** Called with a notice if the prompt exceeds the model's context or activations, so that the model sees only the prompt's end. */
  readonly notice?: ((text: string) => void) | undefined;
}

/** The key-value cache of each model. Calls share a cache, because device memory is freed only with the device. */
const caches = new WeakMap<Model, KeyValueCache>();

/**
 * Continues a prompt and returns the new text, without the prompt, up to the end of the document or `tokens` tokens. If the
 * prompt is longer than the model's context, the model sees only the end of the prompt. Only one call at a time may use a model.
 * @throws UsageError for a wrong option; Gpt2Error for a vocabulary without a known tokenizer, or weights that have diverged
 * @example console.log(await generateText(model, 'ROMEO:', { tokens: 8, temperature: 0.8 }));
 */
export async function generateText(model: Model, prompt: string, options: TextGenerationOptions = {}): Promise<string> {
  checkArguments({ model, prompt });
  const { tokenizer: ofTokenizer } = argumentKinds;
  const others = { tokens: whole(0), seed: seedKind, tokenizer: ofTokenizer, notice: 'function' } as const;
  checkGiven(options, {}, { ...others, ...choiceKinds });
  const { config, activations } = model;
  const { tokens: most = 128, seed = 42, tokenizer = tokenizerOf(config), notice, ...choice } = options;
  if (!tokenizer) {
    throw gpt2Error`a vocabulary of ${config.vocabularySize} tokens has no known tokenizer; give that of its weights, { tokenizer: weights.tokenizer }, or token ids to generate()`;
  }
  checkTokenizer(tokenizer, config);
  const window = Math.min(config.context, activations.rows);
  const cache = caches.get(model) ?? new KeyValueCache(model, { texts: 1, window });
  caches.set(model, cache);
  const { endOfText } = tokenizer;
  const ids = promptIds(prompt, tokenizer);
  const cut = describeCut(ids, window);
  if (cut !== undefined) notice?.(cut);
  const decoder = new StreamDecoder(tokenizer, ids);
  let text = '';
  for await (const part of generate(cache, { ...choice, prompts: [ids], tokens: most, seed, stopAt: endOfText })) {
    if ('token' in part) text += decoder.push(part.token);
    else if (part.end === 'diverged') throw gpt2Error`the model's weights have diverged: load an earlier checkpoint`;
  }
  return text + decoder.end();
}
