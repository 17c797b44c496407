// A text in one call: what encode, generate and decode give.
import { expect, it } from 'vitest';
import { Gpt2Error, generate, generateText, KeyValueCache, logits, lossesOf } from '../../src/index.ts';
import { castWeights, createModel } from '../../src/model/model.ts';
import { bytes, decode, encode } from '../../src/tokenizer/tokenizer.ts';
import { describeBackends } from '../support/backends.ts';
import { drawnModel, tinyConfig, tinyTrainer } from '../support/tiny-model.ts';

describeBackends('generateText', (device) => {
  const modelOf = (vocabularySize: number, rows: number) =>
    drawnModel(device(), { ...tinyConfig, vocabularySize }, { B: 1, T: rows, purpose: 'inference' });

  it.each([tinyConfig.context, 16])('continues a prompt over activations of %i tokens', async (rows) => {
    const model = modelOf(bytes.vocabularySize, rows);
    const cache = new KeyValueCache(model, { texts: 1, window: rows });
    const prompts = [[bytes.endOfText, ...encode('Hé, ', bytes)]];
    const ids: number[] = [];
    for await (const part of generate(cache, { prompts, tokens: 128, seed: 42, stopAt: bytes.endOfText })) {
      if ('token' in part) ids.push(part.token);
    }
    const wanted = decode(ids, bytes);
    expect(wanted.length).toBeGreaterThan(20);
    expect(await generateText(model, 'Hé, ')).toBe(wanted);
    expect(await generateText(model, 'Hé, ', { tokens: undefined, seed: 42 })).toBe(wanted);
    expect(await generateText(model, 'Hé, ', { seed: 7 })).not.toBe(wanted);
    expect(await generateText(model, 'Hé, ', { tokens: 0 })).toBe('');
  });

  it('sees the end of a prompt that is longer than the context, and says so', async () => {
    const model = modelOf(bytes.vocabularySize, tinyConfig.context);
    const end = 'x'.repeat(tinyConfig.context);
    const notices: string[] = [];
    const notice = (text: string) => void notices.push(text);
    await generateText(model, end.slice(1), { tokens: 1, notice });
    expect(notices).toEqual([]);
    const long = await generateText(model, `and ${end}`, { tokens: 1, temperature: 0, notice });
    expect(await generateText(model, `or ${end}`, { tokens: 1, temperature: 0 })).toBe(long);
    const { context } = tinyConfig;
    expect(notices).toEqual([`the prompt has ${context + 5} tokens; the model sees only the last ${context}`]);
  });

  it('refuses weights that nothing has filled, as logits, lossesOf and a step do', async () => {
    const config = { ...tinyConfig, vocabularySize: bytes.vocabularySize };
    const model = createModel(device(), config, { B: 1, T: 4, purpose: 'training' });
    const inputs = Int32Array.of(1, 2, 3, 4);
    const trainer = tinyTrainer(model, { batch: 1, sequence: 4 });
    const step = () => trainer.step(0, 0, () => ({ inputs, targets: inputs }));
    const uses = [() => generateText(model, 'a'), () => logits(model, { inputs }), () => lossesOf(model, inputs), step];
    for (const use of uses) await expect(use()).rejects.toThrow("the model's weights are zero: fill them with");
  });

  it('refuses a vocabulary without a tokenizer, and weights that have diverged', async () => {
    await expect(generateText(modelOf(61, 16), 'a')).rejects.toThrow(
      new Gpt2Error(
        'a vocabulary of 61 tokens has no known tokenizer; give that of its weights, { tokenizer: weights.tokenizer }, or token ids to generate()',
      ),
    );
    const model = modelOf(bytes.vocabularySize, 16);
    model.masters.get('lnfb').write(new Float32Array(tinyConfig.channels).fill(Number.NaN));
    castWeights(model);
    await expect(generateText(model, 'a')).rejects.toThrow("the model's weights have diverged");
  });
});
