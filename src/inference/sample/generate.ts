// Generates texts token by token with a key-value cache. Each prompt is processed in one pass; then each step, recorded as a graph,
// adds a token to every text. The device runs ahead of the host. The op `sample` chooses tokens; tokenizers turn them into text.
import { argumentKinds, checkArguments, checkGiven, checkValue, real, whole } from '../../base/checks/given.ts';
import { gpt2Error, usageError } from '../../base/errors.ts';
import { decode } from '../../model/decode.ts';
import type { CacheView, KeyValueCache, TokenCopy } from '../../model/key-value-cache.ts';
import { checkFilled } from '../../model/model.ts';
import type { Tensor } from '../../native/tensor.ts';
import { sample } from '../../ops/ops.generated.ts';

export interface Choice {
  /** The logits are divided by this temperature; 0 always chooses the most likely token. */
  readonly temperature: number;
  /** Number of most likely tokens among which to choose; 0: all. */
  readonly topK: number;
  /** Choose among the most likely tokens whose probabilities add up to this value (Holtzman et al. 2019); 1: all tokens. */
  readonly topP: number;
}

type OptionalChoice = { readonly [K in keyof Choice]?: Choice[K] | undefined };

/** Defaults: temperature 1, topK 0, topP 1. */
export interface GenerateOptions extends OptionalChoice {
  /**
   * Token ids at the beginning of each text, such as [endOfText], the token that opens every document. For a model with a document
   * mask, an empty prompt means [endOfText]. If a prompt is longer than the cache's window, the model sees only the prompt's end.
   */
  readonly prompts: readonly ArrayLike<number>[];
  /** Index of the first text among all texts of `seed`. Texts of different indices have independent random choices. Default 0. */
  readonly firstText?: number | undefined;
  /** Maximum number of tokens to generate for each text. */
  readonly tokens: number;
  readonly seed: number;
  /** A token that ends a text and is not yielded. Default: none, or the end of text of a model with a document mask. */
  readonly stopAt?: number | undefined;
  /** If a text fills the cache's window, the window keeps its newer half ("slide") or the text ends ("stop"). Default slide. */
  readonly whenFull?: 'slide' | 'stop' | undefined;
}

/** Why a text ended: all tokens are generated, `stopAt` was chosen, the window is full, or the model's logits are NaN. */
export type GenerationEnd = 'length' | 'stop token' | 'window full' | 'diverged';

/** A token of one of the texts, or the end of a text. */
export type Generated =
  | { readonly text: number; readonly token: number }
  | { readonly text: number; readonly end: GenerationEnd };

interface Text {
  readonly index: number;
  readonly seed: number;
  readonly tokens: number[];
  left: number;
  /** Number of tokens in the window that the model has processed; the next token is already chosen. */
  run: number;
  /** Number of tokens in the window that the host has read. */
  known: number;
  ended: boolean;
}

/** Steps between two reads of tokens: 16 tokens of d12 take about 2 ms on an H100, and the host polls every millisecond. */
const stepsAhead = 16;

/** The ranges of a seed and of the options by which a token is chosen. */
export const seedKind = whole(-(2 ** 31), 2 ** 32 - 1);
export const choiceKinds = {
  temperature: real(0),
  topK: whole(0, 2 ** 31 - 1),
  topP: real(0, 1),
  whenFull: ['slide', 'stop'],
} as const;

/**
 * Yields the tokens of all texts as they are chosen, and each text's end. The same weights, options and cache sizes give the same
 * tokens. The event loop runs between tokens. Only one generation at a time may use a cache.
 * @throws UsageError for an option out of range, an empty prompt for a model without `endOfText`, or uninitialized weights; Gpt2Error
 * for a prompt outside the vocabulary, or if the cache is in use
 * @example
 * const cache = new KeyValueCache(model, { texts: 1, window: 32 });
 * const decoder = new StreamDecoder();
 * for await (const part of generate(cache, { prompts: [encode('Hello')], tokens: 8, seed: 42 })) {
 *   if ('token' in part) process.stdout.write(decoder.push(part.token));
 * }
 */
export async function* generate(cache: KeyValueCache, options: GenerateOptions): AsyncGenerator<Generated, void> {
  const needed = { prompts: argumentKinds.prompts, tokens: whole(0), seed: seedKind } as const;
  checkGiven(options, needed, { ...choiceKinds, firstText: whole(0), stopAt: whole(0) });
  const { prompts, tokens, seed, temperature = 1, topK = 0, topP = 1, firstText = 0, whenFull = 'slide' } = options;
  for (const prompt of prompts) checkValue('a prompt', argumentKinds.tokens, prompt);
  checkArguments({ cache });
  // Wait for a training step that was not awaited, before checking the weights.
  await cache.model.activations.inTurn(async () => checkFilled(cache.model));
  const { endOfText, vocabularySize } = cache.model.config;
  // With a document mask, nothing after an end of text attends to earlier tokens, so a text ends there by default.
  const { stopAt = endOfText } = options;
  if (stopAt !== undefined) checkValue('stopAt', whole(0, vocabularySize - 1), stopAt);
  const choice = { temperature, topK, topP };
  if (prompts.length > cache.texts) {
    throw usageError`the cache has room for ${cache.texts} texts, not ${prompts.length}`;
  }
  const texts = prompts.map((prompt, index): Text => {
    const start = { seed: textSeed(seed, firstText + index), tokens: promptOf(cache, prompt) };
    return { index, ...start, left: tokens, run: 0, known: 0, ended: false };
  });
  if (tokens === 0) {
    for (const { index } of texts) yield { text: index, end: 'length' };
    return;
  }
  if (cache.isInUse) {
    throw gpt2Error`the cache is in use by another generation; finish or return that one first, or make another cache`;
  }
  cache.isInUse = true;
  try {
    const step = stepOf(cache, choice);
    for (;;) {
      for (const text of texts) {
        if (text.ended || (text.run > 0 && text.run < cache.window)) continue;
        if (text.run > 0 && whenFull === 'stop') {
          text.ended = true;
          yield { text: text.index, end: 'window full' };
        } else {
          openWindow(cache, text, choice);
        }
      }
      const live = texts.filter(({ ended }) => !ended);
      if (live.length === 0) return;
      yield* steps(cache, live, step, stopAt);
    }
  } finally {
    cache.isInUse = false;
  }
}

/** Runs steps until a text's window is full, a text has all its tokens, or all texts have ended. */
async function* steps(cache: KeyValueCache, texts: readonly Text[], step: { run(): void }, stopAt: number | undefined) {
  const { device } = cache.model;
  const ahead = device.graphs ? stepsAhead : 1;
  // The device has chosen `run + 1 - known` tokens of a text that the host has not read; right after openWindow, one token.
  const leftOf = (text: Text) => Math.min(cache.window - text.run, text.left - (text.run + 1 - text.known));
  let left = Math.min(...texts.map(leftOf));
  const enqueue = (copy: TokenCopy): Pending => {
    const count = Math.min(ahead, left);
    left -= count;
    for (let enqueued = 0; enqueued < count; enqueued++) step.run();
    for (const text of texts) text.run += count;
    const { pointer: source, bytes } = cache.tokens;
    device.call('copyToHostAsync', { pinned: copy.pinned.at(0), source, bytes });
    device.record(copy.event);
    return { copy, ends: texts.map(({ run }) => run + 1) };
  };
  const [first, second] = cache.copies;
  let pending: Pending | undefined = enqueue(first);
  while (pending) {
    const { copy, ends }: Pending = pending;
    pending = left > 0 ? enqueue(copy === first ? second : first) : undefined;
    await device.reached(copy.event);
    const rows = new Int32Array(copy.pinned.memory);
    for (const [place, text] of texts.entries()) {
      const row = text.index * (cache.window + 1);
      yield* read(text, rows.slice(row + text.known, row + ends[place]!), stopAt);
    }
    if (texts.every(({ ended }) => ended)) left = 0;
  }
}

/** An enqueued copy of tokens to the host, and for each text the number of tokens in its window when the copy runs. */
interface Pending {
  readonly copy: TokenCopy;
  readonly ends: readonly number[];
}

function* read(text: Text, chosen: Int32Array, stopAt: number | undefined): Generator<Generated, void> {
  for (const token of chosen) {
    if (text.ended) return;
    text.known++;
    if (token === stopAt || token < 0) {
      text.ended = true;
      yield { text: text.index, end: token < 0 ? 'diverged' : 'stop token' };
      return;
    }
    text.tokens.push(token);
    text.left--;
    yield { text: text.index, token };
    if (text.left === 0) {
      text.ended = true;
      yield { text: text.index, end: 'length' };
    }
  }
}

/**
 * Fills a text's window anew with the end of the text, and chooses the next token. A new text may fill the whole window. A text that
 * has filled the window before keeps only as many tokens as fill half of the window, so that further tokens fit.
 */
function openWindow(cache: KeyValueCache, text: Text, choice: Choice): void {
  const { model, window } = cache;
  const { endOfText } = model.config;
  const fitting = text.tokens.slice(-(text.run > 0 ? Math.ceil(window / 2) : window));
  // With a document mask the model attends only to the last document, so only that document is processed.
  const seen = fitting.slice(endOfText === undefined ? 0 : Math.max(0, fitting.lastIndexOf(endOfText)));
  const view = cache.text(text.index);
  // Derive a new seed for the window: a choice depends on seed and position, and positions restart at 0.
  view.seeds.write(Int32Array.of(textSeed(text.seed, text.tokens.length)));
  view.tokens.write(Int32Array.from(seen));
  view.positions.write(Int32Array.of(0));
  const batch = model.activations.at(1, seen.length);
  const logits = decode(model, batch, view, { first: seen.length - 1, rows: 1 });
  view.positions.write(Int32Array.of(seen.length - 1));
  choose(cache, view, logits, choice);
  text.run = seen.length;
  text.known = seen.length;
}

/** The step that adds a token to every text, recorded at the first call for each choice. */
function stepOf(cache: KeyValueCache, choice: Choice): { run(): void } {
  const { model, texts, programs } = cache;
  const key = Object.values(choice).join(' ');
  const known = programs.get(key);
  if (known) return known;
  const batch = model.activations.at(texts, 1);
  const step = model.device.program(() => {
    choose(cache, cache, decode(model, batch, cache, { first: 0, rows: texts }), choice);
  });
  programs.set(key, step);
  return step;
}

function choose({ model: { device, config } }: KeyValueCache, view: CacheView, logits: Tensor, choice: Choice): void {
  const { tokens, positions, seeds } = view;
  sample(device, { tokens, positions, seeds, logits, V: config.vocabularySize, ...choice });
}

/** A notice about a prompt that is longer than the window; undefined if the prompt fits. */
export const describeCut = ({ length }: ArrayLike<number>, window: number): string | undefined =>
  length > window ? `the prompt has ${length} tokens; the model sees only the last ${window}` : undefined;

function promptOf({ model: { config } }: KeyValueCache, prompt: ArrayLike<number>): number[] {
  if (prompt.length === 0 && config.endOfText === undefined)
    throw usageError`an empty prompt stands for end of text, whose id this model does not know; give [tokenizer.endOfText]`;
  const text = prompt.length > 0 ? Array.from(prompt) : [config.endOfText!];
  // Find the index, because the invalid value itself may be undefined.
  const outside = text.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= config.vocabularySize);
  if (outside >= 0) {
    throw gpt2Error`the prompt has the token ${text[outside]}, outside the model's vocabulary of ${config.vocabularySize}; use the model's tokenizer`;
  }
  return text;
}

/**
 * A 32-bit seed for a text, or for a later window of a text, from the finalizer of SplitMix64 (Steele et al. 2014). Seeds of
 * neighbouring indices are unrelated.
 */
export function textSeed(seed: number, index: number): number {
  let mixed = BigInt.asUintN(64, (BigInt.asUintN(32, BigInt(seed)) << 32n) + BigInt(index) + 1n);
  mixed = BigInt.asUintN(64, mixed * 0x9e3779b97f4a7c15n);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
  mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
  return Number(BigInt.asIntN(32, (mixed ^ (mixed >> 31n)) >> 32n));
}
