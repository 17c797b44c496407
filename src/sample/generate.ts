// Text from a model, token by token. A text longer than the window slides: only its end is seen. Which token comes next is
// chosen in choose.ts; turning tokens into text is the tokenizer's.
import { Gpt2Error, UsageError } from '../errors.ts';
import { forward } from '../model/forward.ts';
import { logitsAt } from '../model/head.ts';
import type { Model } from '../model/model.ts';
import { endOfText } from '../tokenizer/tokenizer.ts';
import { Chance, type ChoiceOptions, checkChoice, chooseToken } from './choose.ts';

export interface GenerateOptions extends ChoiceOptions {
  /** Ids to go on from; none: the end of text, which opens every document. */
  readonly prompt: ArrayLike<number>;
  /** Most tokens to make. */
  readonly tokens: number;
  /** Longest sequence the model is run on: no more than its activations were made for. Default: its context. */
  readonly window?: number;
  readonly seed: number;
  /** A token that ends the text; it is not given out. */
  readonly stopAt?: number;
}

/** Why a text ended: as long as was asked for, by `stopAt`, or because the model's logits are no numbers any more. */
export type GenerationEnd = 'length' | 'stop token' | 'diverged';

/** Lengths are rounded up to this, so that few shapes are run; what lies behind the text is not seen by it. */
const lengthStep = 16;

/**
 * Gives tokens as they are chosen; the same for the same weights and options. The generator's return value says why it
 * ended. Between tokens the event loop runs.
 * @throws UsageError for an option out of range, Gpt2Error for a prompt that the vocabulary lacks
 */
export async function* generate(model: Model, options: GenerateOptions): AsyncGenerator<number, GenerationEnd> {
  const { tokens, window = model.config.context, seed, stopAt } = options;
  checkChoice(options);
  if (!Number.isSafeInteger(tokens) || tokens < 0) {
    throw new UsageError(`tokens must be a whole number of at least 0, not ${tokens}`);
  }
  if (!Number.isSafeInteger(window) || window < 1 || window > model.config.context) {
    throw new UsageError(`window must be from 1 to the model's context of ${model.config.context}, not ${window}`);
  }
  const chance = new Chance(seed);
  const text = promptOf(model, options.prompt);
  for (let made = 0; made < tokens; made++) {
    const seen = text.slice(-window);
    const length = Math.min(window, Math.ceil(seen.length / lengthStep) * lengthStep);
    const batch = model.activations.at(1, length);
    const padded = new Int32Array(length);
    padded.set(seen);
    batch.model.tokens.write(padded);
    forward(model, batch);
    await model.device.finished();
    const token = chooseToken(logitsAt(model, batch, seen.length - 1), options, chance);
    if (token === undefined) return 'diverged';
    if (token === stopAt) return 'stop token';
    text.push(token);
    yield token;
  }
  return 'length';
}

function promptOf({ config }: Model, prompt: ArrayLike<number>): number[] {
  const text = prompt.length > 0 ? Array.from(prompt) : [endOfText];
  const outside = text.find((id) => !Number.isInteger(id) || id < 0 || id >= config.vocabularySize);
  if (outside !== undefined) {
    throw new Gpt2Error(
      `the prompt has the token ${outside}, which the model's vocabulary of ${config.vocabularySize} lacks; was it made with another tokenizer?`,
    );
  }
  return text;
}
