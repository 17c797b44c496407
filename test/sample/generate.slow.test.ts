// Texts from the tiny model: with the cache of keys and values the same tokens as without one, the same for the same seed,
// whatever stands beside them, and an end that says why.
import { beforeEach, describe, expect, it } from 'vitest';
import { type Device, KeyValueCache, logits, type ModelConfig, parameterTable, UsageError } from '../../src/index.ts';
import { type GenerateOptions, type GenerationEnd, generate } from '../../src/inference/sample/generate.ts';
import { castWeights, type Model } from '../../src/model/model.ts';
import { describeBackends } from '../support/backends.ts';
import { modernParts } from '../support/modern-models.ts';
import { drawnModel, tinyConfig } from '../support/tiny-model.ts';

const prompt = [1, 2, 3, 4, 5];
const { context } = tinyConfig;

interface Made {
  tokens: number[];
  end?: GenerationEnd;
}

async function runAll(cache: KeyValueCache, options: Partial<GenerateOptions>): Promise<Made[]> {
  const texts: Made[] = (options.prompts ?? [prompt]).map(() => ({ tokens: [] }));
  for await (const next of generate(cache, { prompts: [prompt], tokens: 10, seed: 1, ...options })) {
    const text = texts[next.text]!;
    expect(text.end, 'nothing comes behind the end').toBeUndefined();
    if ('token' in next) text.tokens.push(next.token);
    else text.end = next.end;
  }
  return texts;
}

const run = async (cache: KeyValueCache, options: Partial<GenerateOptions>): Promise<Made> =>
  (await runAll(cache, options))[0]!;

/** As drawn, a token is always followed by itself; larger layers have more to say. */
function liveModel(device: Device, config: ModelConfig): Model {
  const model = drawnModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
  for (const { name, shape } of parameterTable(config)) {
    if (shape.length < 2) continue;
    const tensor = model.masters.get(name);
    tensor.write((tensor.read() as Float32Array).map((x) => (name.startsWith('h.') || name === 'wpe' ? 25 : 10) * x));
  }
  castWeights(model);
  return model;
}

/** The likeliest tokens of the whole text, run anew for each; a window that is full goes on from its newer half. */
async function greedyWithoutCache(model: Model, begin: readonly number[], count: number, window: number) {
  const made: number[] = [];
  let seen = begin.slice(-window);
  while (made.length < count) {
    if (seen.length > window) seen = seen.slice(-Math.ceil(window / 2));
    const all = await logits(model, { inputs: Int32Array.from(seen) }, { sequence: seen.length });
    const last = all.subarray(-model.config.vocabularySize);
    const token = last.indexOf(Math.max(...last));
    seen.push(token);
    made.push(token);
  }
  return made;
}

describe.each([
  ['GPT-2', tinyConfig],
  // As GPT-2's, the weights are drawn: no projection is zero.
  ['a modern GPT', { ...tinyConfig, ...modernParts, initialization: 'gpt2' as const }],
])('%s', (__, config) =>
  describeBackends('generation', (device) => {
    let model: Model;
    let cache: KeyValueCache;
    beforeEach(() => {
      model = liveModel(device(), config);
      cache = new KeyValueCache(model, { texts: 1, window: context });
    });

    it('gives the tokens asked for, the same for the same seed', async () => {
      const first = await run(cache, { tokens: 50 });
      expect(first.tokens.length).toBe(50);
      expect(first.end).toBe('length');
      expect(first.tokens.every((token) => token >= 0 && token < tinyConfig.vocabularySize)).toBe(true);
      expect(await run(cache, { tokens: 50 })).toEqual(first);
      expect((await run(cache, { tokens: 50, temperature: 5, seed: 2 })).tokens).not.toEqual(first.tokens);
      expect(await run(cache, { tokens: 0 })).toEqual({ tokens: [], end: 'length' });
    });

    it.each([context, 7, 1])(
      'takes the tokens that it would without a cache, past a window of %i too',
      async (window) => {
        const small = new KeyValueCache(model, { texts: 1, window });
        const wanted = await greedyWithoutCache(model, prompt, 100, window);
        expect((await run(small, { tokens: 100, temperature: 0 })).tokens).toEqual(wanted);
        expect(new Set(wanted).size).toBeGreaterThan(window === 1 ? 1 : 5);
      },
    );

    it('takes 512 tokens that it would without a cache, of a context of 1024', async () => {
      const long = { ...config, channels: 128, heads: 2, context: 1024, vocabularySize: 500 };
      const longModel = liveModel(device(), long);
      const whole = new KeyValueCache(longModel, { texts: 1, window: long.context });
      const wanted = await greedyWithoutCache(longModel, prompt, 512, long.context);
      expect((await run(whole, { tokens: 512, temperature: 0 })).tokens).toEqual(wanted);
      expect(new Set(wanted).size).toBeGreaterThan(20);
    });

    it('a prompt longer than the window is seen by its end', async () => {
      const long = Array.from({ length: context + 9 }, (__, index) => (index * 5) % 60);
      const wanted = await greedyWithoutCache(model, long, 30, context);
      expect((await run(cache, { prompts: [long], tokens: 30, temperature: 0 })).tokens).toEqual(wanted);
    });

    it('gives each of several texts what it would get alone', async () => {
      const prompts = [[1, 2, 3], [50], [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], [1, 2, 3]];
      const together = new KeyValueCache(model, { texts: 5, window: context });
      const texts = await runAll(together, { prompts, tokens: 60 });
      for (const [index, text] of texts.entries()) {
        expect(await run(together, { prompts: [prompts[index]!], tokens: 60, firstText: index })).toEqual(text);
      }
      // The same prompt at two places is two texts.
      expect(texts[3]!.tokens).not.toEqual(texts[0]!.tokens);
      await expect(runAll(together, { prompts: new Array(6).fill(prompt) })).rejects.toThrow('room for 5 texts, not 6');
    });

    it('stops at a given token, which is not yielded, while others go on', async () => {
      const both = new KeyValueCache(model, { texts: 2, window: context });
      const prompts = [prompt, [9]];
      const [first, second] = await runAll(both, { prompts, temperature: 0, tokens: 40 });
      const stopAt = first!.tokens.find((token) => !second!.tokens.includes(token)) ?? -2;
      const stopped = await runAll(both, { prompts, temperature: 0, tokens: 40, stopAt });
      const tokens = first!.tokens.slice(0, first!.tokens.indexOf(stopAt));
      expect(stopped).toEqual([{ tokens, end: 'stop token' }, second]);
    });

    it('ends where the window is full, if asked to', async () => {
      const { tokens } = await run(cache, { tokens: 100 });
      expect(await run(cache, { tokens: 100, whenFull: 'stop' })).toEqual({
        // The window's last token is run as well, and chooses one more.
        tokens: tokens.slice(0, context - prompt.length + 1),
        end: 'window full',
      });
    });

    it('lets the event loop run between tokens', async () => {
      let turns = 0;
      const counter = setInterval(() => turns++, 0);
      await run(cache, { tokens: 200 });
      clearInterval(counter);
      expect(turns).toBeGreaterThan(3);
    });

    it('may be left before its end, and begun anew', async () => {
      const whole = await run(cache, { tokens: 60 });
      for await (const _next of generate(cache, { prompts: [prompt], tokens: 60, seed: 1 })) break;
      expect(await run(cache, { tokens: 60 })).toEqual(whole);
    });

    it('has a cache to itself until it ends or is left', async () => {
      const whole = await run(cache, { tokens: 60 });
      const generation = generate(cache, { prompts: [prompt], tokens: 60, seed: 1 });
      await generation.next();
      await expect(run(cache, {})).rejects.toThrow('the cache is in use by another generation');
      await generation.return();
      expect(await run(cache, { tokens: 60 })).toEqual(whole);
    });

    it('ends where the model has diverged', async () => {
      model.masters.get('lnfw').write(new Float32Array(tinyConfig.channels).fill(Number.NaN));
      castWeights(model);
      expect(await run(cache, {})).toEqual({ tokens: [], end: 'diverged' });
    });

    it('refuses what cannot be, by name', async () => {
      const rejected = (options: Partial<GenerateOptions>) => expect(run(cache, options)).rejects;
      await rejected({ prompts: [[1, 61]] }).toThrow('the prompt has the token 61');
      await rejected({ prompts: [[1, undefined as never]] }).toThrow('the prompt has the token undefined');
      await rejected({ prompts: [[-1]] }).toThrow('the prompt has the token -1');
      await rejected({ prompts: [[]] }).toThrow('an empty prompt stands for end of text, whose id this model');
      await rejected({ stopAt: 61 }).toThrow('stopAt takes a whole number from 0 to 60, not 61');
      await rejected({ tokens: -1 }).toThrow(UsageError);
      await rejected({ temperature: -1 }).toThrow('temperature takes a number of at least 0, not -1');
      await rejected({ topK: 0.5 }).toThrow('topK takes a whole number from 0 to 2147483647, not 0.5');
      await rejected({ seed: 0.5 }).toThrow('seed takes a whole number from -2147483648 to 4294967295, not 0.5');
    });
  }),
);
