// Text from the tiny model: the same for the same seed, what the whole sequence says at every length, and an end that
// says why.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { forward } from '../../src/model/forward.ts';
import { logitsAt } from '../../src/model/head.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { castWeights, createModel, type Model } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { type GenerateOptions, type GenerationEnd, generate } from '../../src/sample/generate.ts';
import { describeBackends } from '../support/backends.ts';
import { tinyConfig } from '../support/tiny-model.ts';

const prompt = [1, 2, 3, 4, 5];
const { context } = tinyConfig;

async function run(model: Model, options: Partial<GenerateOptions>): Promise<{ tokens: number[]; end: GenerationEnd }> {
  const generation = generate(model, { prompt, tokens: 10, seed: 1, ...options });
  const tokens: number[] = [];
  let next = await generation.next();
  for (; !next.done; next = await generation.next()) tokens.push(next.value);
  return { tokens, end: next.value };
}

describeBackends('generation', (_, kind) => {
  let device: Device;
  let model: Model;
  beforeEach(() => {
    device = Device.open({ kind });
    model = createModel(device, tinyConfig, { B: 1, T: context, purpose: 'inference' });
    initializeWeights(model, 42);
    // As drawn, every token is about as likely; larger embeddings tell them apart.
    const wte = model.masters.get('wte');
    const values = wte.read() as Float32Array;
    wte.write(values.map((value) => 20 * value));
    castWeights(model);
  });
  afterEach(() => device.close());

  it('gives the tokens asked for, the same for the same seed', async () => {
    const first = await run(model, { tokens: 50 });
    expect(first.tokens.length).toBe(50);
    expect(first.end).toBe('length');
    expect(first.tokens.every((token) => token >= 0 && token < tinyConfig.vocabularySize)).toBe(true);
    expect(await run(model, { tokens: 50 })).toEqual(first);
    expect((await run(model, { tokens: 50, temperature: 5, seed: 2 })).tokens).not.toEqual(first.tokens);
    expect((await run(model, { tokens: 0 })).tokens).toEqual([]);
  });

  it('takes at every length the likeliest token of the whole window, past the context too', async () => {
    const tokens = [...prompt];
    const whole = model.activations.at(1, context);
    for (let made = 0; made < 40; made++) {
      const seen = tokens.slice(-context);
      const padded = new Int32Array(context).fill(60);
      padded.set(seen);
      whole.model.tokens.write(padded);
      forward(model, whole);
      const logits = logitsAt(model, whole, seen.length - 1);
      tokens.push(logits.indexOf(Math.max(...logits)));
    }
    expect((await run(model, { tokens: 40, temperature: 0 })).tokens).toEqual(tokens.slice(prompt.length));
  });

  it('sees no more than its window', async () => {
    const short = await run(model, { tokens: 20, window: 3, temperature: 0 });
    expect(await run(model, { prompt: prompt.slice(-3), tokens: 20, window: 3, temperature: 0 })).toEqual(short);
  });

  it('runs few shapes', async () => {
    const shapes = new Set<number>();
    const counting: Model = {
      ...model,
      activations: Object.assign(Object.create(model.activations), {
        at: (B: number, T: number) => {
          shapes.add(T);
          return model.activations.at(B, T);
        },
      }),
    };
    await run(counting, { tokens: 40 });
    expect([...shapes]).toEqual([16, 32]);
  });

  it('stops at the token it is told to, which is not given out', async () => {
    const { tokens } = await run(model, { temperature: 0 });
    const at = tokens.indexOf(tokens[4]!);
    expect(await run(model, { temperature: 0, stopAt: tokens[4]! })).toEqual({
      tokens: tokens.slice(0, at),
      end: 'stop token',
    });
  });

  it('lets the event loop run between tokens', async () => {
    let turns = 0;
    const counter = setInterval(() => turns++, 0);
    await run(model, { tokens: 30 });
    clearInterval(counter);
    expect(turns).toBeGreaterThan(5);
  });

  it('ends where the model has diverged', async () => {
    model.masters.get('lnfb').write(new Float32Array(tinyConfig.channels).fill(Number.NaN));
    castWeights(model);
    expect(await run(model, {})).toEqual({ tokens: [], end: 'diverged' });
  });

  it('refuses what cannot be, by name', async () => {
    await expect(run(model, { prompt: [1, 61] })).rejects.toThrow('the prompt has the token 61');
    await expect(run(model, { prompt: [-1] })).rejects.toThrow('the prompt has the token -1');
    // Nothing to go on from means the end of text, which this small vocabulary lacks.
    await expect(run(model, { prompt: [] })).rejects.toThrow('the prompt has the token 50256');
    await expect(run(model, { window: 33 })).rejects.toThrow(
      "window must be from 1 to the model's context of 32, not 33",
    );
    await expect(run(model, { tokens: -1 })).rejects.toThrow(UsageError);
    await expect(run(model, { temperature: -1 })).rejects.toThrow(UsageError);
    await expect(run(model, { seed: 0.5 })).rejects.toThrow(UsageError);
  });
});
