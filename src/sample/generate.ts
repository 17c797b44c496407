// Text from a model, token by token. A text longer than the model's activations hold slides: only its end is seen.
import { forward } from '../model/forward.ts';
import { logitsAt } from '../model/head.ts';
import type { Model } from '../model/model.ts';
import { Chance, type ChoiceOptions, chooseToken } from './choose.ts';

export interface GenerateOptions extends ChoiceOptions {
  /** Ids to go on from, one at least. */
  readonly prompt: ArrayLike<number>;
  /** Most tokens to make. */
  readonly tokens: number;
  /** Longest sequence the model is run on: no more than its activations were made for. */
  readonly window: number;
  readonly seed: number;
  /** A token that ends the text; it is not given out. */
  readonly stopAt?: number;
}

/** Lengths are rounded up to this, so that few shapes are run; what lies behind the text is not seen by it. */
const lengthStep = 16;

/** Gives tokens as they are chosen. */
export async function* generate(model: Model, options: GenerateOptions): AsyncGenerator<number> {
  const chance = new Chance(options.seed);
  const text = Array.from(options.prompt);
  for (let made = 0; made < options.tokens; made++) {
    const seen = text.slice(-options.window);
    const length = Math.min(options.window, Math.ceil(seen.length / lengthStep) * lengthStep);
    const batch = model.activations.at(1, length);
    const padded = new Int32Array(length);
    padded.set(seen);
    batch.model.tokens.write(padded);
    forward(model, batch);
    await model.device.finished();
    const token = chooseToken(logitsAt(model, batch, seen.length - 1), options, chance);
    if (token === options.stopAt) return;
    text.push(token);
    yield token;
  }
}
