// Measures text generation: each op of decoding a token, the decoding of a token at three positions, and whole texts. A single text is
// bound by memory: each token reads every weight once. The weights are random: trained weights would take the same time.
import { usageError } from '../../base/errors.ts';
import { median } from '../../base/quantile.ts';
import { generate } from '../../inference/sample/generate.ts';
import type { ModelConfig } from '../../model/config.ts';
import { decode } from '../../model/decode.ts';
import { initializeWeights } from '../../model/initialize.ts';
import { KeyValueCache } from '../../model/key-value-cache.ts';
import { createModel } from '../../model/model.ts';
import { Device, type DeviceOptions } from '../../native/device.ts';
import { sample } from '../../ops/ops.generated.ts';
import { timeCalls } from './op-times.ts';
import { measurePeaks } from './peaks.ts';
import { timeOnDevice } from './timing.ts';

/** Positions in the context at which decoding one token is timed. The ops are timed at the middle position. */
const positions = [10, 500, 1000] as const;

const choices = [
  ['sample, temperature 0', { temperature: 0 }],
  ['sample', {}],
  ['sample, top-k', { topK: 40 }],
  ['sample, top-k and top-p', { topK: 40, topP: 0.95 }],
] as const;

const runs = [
  { texts: 1, temperature: 0 },
  { texts: 1, temperature: 0.8 },
  { texts: 1, temperature: 0.8, topK: 40, topP: 0.95 },
  { texts: 8, temperature: 0.8 },
  { texts: 32, temperature: 0.8 },
] as const;

/**
 * Measures the generation of texts of `tokens` tokens.
 * @param onLine called with each result as soon as it is measured
 * @throws UsageError for a context of 1,000 positions or fewer; Gpt2Error if the device cannot be opened or has too little memory
 */
export async function measureGeneration(
  choice: DeviceOptions,
  { config, tokens }: { readonly config: ModelConfig; readonly tokens: number },
  onLine: (line: string) => void,
) {
  if (config.context <= positions[2])
    throw usageError`--generate times a token at position ${positions[2]}, which --context ${config.context} does not have; give a longer --context`;
  using device = Device.open(choice);
  const peaks = await measurePeaks(device);
  const model = createModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
  initializeWeights(model, 42);
  const weightBytes = device.allocated.get('weights')!;
  /** Upper bound of one text's tokens per second: each token reads all weights once, at a copy's rate (bytes read plus bytes written). */
  const bound = peaks.copyBytesPerSecond / weightBytes;

  const cache = new KeyValueCache(model, { texts: 1, window: config.context });
  const at = (position: number) => cache.positions.write(Int32Array.of(position));
  const run = () => decode(model, model.activations.at(1, 1), cache, { first: 0, rows: 1 });
  at(positions[1]);
  const calls = await timeCalls(model, [], async () => run());
  const ops = calls.map(({ name, calls, ms }) => ({ name, calls, us: 1000 * ms }));
  const { logits } = model.activations.at(1, 1).model;
  const row = logits.view([1, logits.shape.at(-1)!]);
  for (const [name, choice] of choices) {
    at(positions[1]);
    const chosen = { temperature: 0.8, topK: 0, topP: 1, ...choice };
    const choose = () => sample(device, { ...cache, logits: row, V: config.vocabularySize, ...chosen });
    // Repeat for only 0.5 ms, because each choice of a token advances the text by one position.
    ops.push({ name, calls: 1, us: 1000 * (await timeOnDevice(device, choose, 0.5)) });
  }
  for (const { name, calls, us } of ops) onLine(`${name.padEnd(30)} ${calls} x ${us.toFixed(2)} us`);
  const decoding = [];
  for (const position of positions) {
    at(position);
    const us = 1000 * (await timeOnDevice(device, run, 5));
    decoding.push({ position, us });
    onLine(`all but the choice, at ${position}: ${us.toFixed(1)} us`);
  }

  const cacheOf = (texts: number) => new KeyValueCache(model, { texts, window: config.context });
  const caches = new Map([1, 8, 32].map((texts) => [texts, cacheOf(texts)]));
  const results = [];
  for (const { texts, ...choice } of runs) {
    const prompts = Array.from({ length: texts }, (_, index) => [config.vocabularySize - 1, index]);
    /** Generates all texts once. @returns tokens per second of each text; the time includes the prompt and the host's work */
    const once = async (): Promise<number> => {
      const begun = performance.now();
      for await (const _ of generate(caches.get(texts)!, { prompts, tokens, seed: 1, ...choice }));
      return (tokens / (performance.now() - begun)) * 1000;
    };
    await once();
    const rounds: number[] = [];
    while (rounds.length < 5) rounds.push(await once());
    const ofBound = median(rounds) / bound;
    results.push({ texts, ...choice, tokensPerSecondOfText: rounds.sort((a, b) => a - b), ofBound });
    onLine(
      `${texts} texts, ${JSON.stringify(choice)}: ${median(rounds).toFixed(0)} tokens/s a text, ${(100 * ofBound).toFixed(1)}% of ${bound.toFixed(0)}`,
    );
  }
  return {
    ...{ dtype: device.dtype, ...device.description, tokens, weightBytes, ...peaks },
    ...{ boundTokensPerSecond: bound, ops, decoding, results },
  };
}
