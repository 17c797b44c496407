// Measures how fast texts are generated, against the limit that memory sets: a token of one text reads every weight once. The
// weights are as drawn; their choices cost as much as a trained model's. Writes JSON to --out, and lines to stdout.
//   node --import tsx scripts/bench-sample.ts [--model d12] [--device cuda] [--dtype bf16] [--tokens 512] [--out FILE]
import { writeFileSync } from 'node:fs';
import { timeCalls } from '../src/bench/op-times.ts';
import { measurePeaks } from '../src/bench/peaks.ts';
import { timeOnDevice } from '../src/bench/timing.ts';
import {
  createModel,
  Device,
  type Dtype,
  generate,
  initializeWeights,
  KeyValueCache,
  presetConfig,
  selectDevice,
} from '../src/index.ts';
import { parameterBytes } from '../src/model/arena.ts';
import { decode } from '../src/model/decode.ts';
import { sample } from '../src/ops/ops.generated.ts';
import { readOption } from '../src/options/read.ts';
import { readFlags } from './flags.ts';

const flags = readFlags({ model: 'd12', device: 'cuda', dtype: 'bf16', tokens: 512, out: '' });

/** Positions of the token that is timed; the ops are timed at the middle one. */
const positions = [10, 500, 1000];

const choices = [
  ['sample, temperature 0', { temperature: 0 }],
  ['sample', {}],
  ['sample, top-k', { topK: 40 }],
  ['sample, top-k and top-p', { topK: 40, topP: 0.95 }],
] as const;

const config = presetConfig(flags.model);
if (!config) throw new Error(`no model ${flags.model}`);
const { tokens } = flags;
const dtype = readOption('dtype', flags.dtype) as Dtype;
using device = Device.open({ ...selectDevice(flags.device), dtype });
const peaks = await measurePeaks(device);
const model = createModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
initializeWeights(model, 42);

const weightBytes = parameterBytes(config, device.elementType, device.elementType);
/** Tokens of one text per second if reading the weights took all the time; a copy's reads and writes both count. */
const bound = peaks.copyBytesPerSecond / weightBytes;
const caches = new Map([1, 8, 32].map((texts) => [texts, new KeyValueCache(model, { texts, window: config.context })]));

const cache = caches.get(1)!;
const at = (position: number) => cache.positions.write(Int32Array.of(position));
const run = () => decode(model, model.activations.at(1, 1), cache, { first: 0, rows: 1 });
at(positions[1]!);
const ops = (await timeCalls(model, [], async () => run())).map(({ name, calls, ms }) => ({
  name,
  calls,
  us: 1000 * ms,
}));
const { logits } = model.activations.at(1, 1).model;
for (const [name, choice] of choices) {
  at(positions[1]!);
  const chosen = { temperature: 0.8, topK: 0, topP: 1, ...choice };
  const row = logits.view([1, logits.shape.at(-1)!]);
  const choose = () => sample(device, { ...cache, logits: row, V: config.vocabularySize, ...chosen });
  // Each choice moves the text on: few of them.
  ops.push({ name, calls: 1, us: 1000 * (await timeOnDevice(device, choose, 0.5)) });
}
for (const { name, calls, us } of ops) console.log(`${name.padEnd(30)} ${calls} x ${us.toFixed(2)} us`);
const decoding = [];
for (const position of positions) {
  at(position);
  decoding.push({ position, us: (await timeOnDevice(device, run, 5)) * 1000 });
  console.log(`all but the choice, at ${position}: ${decoding.at(-1)!.us.toFixed(1)} us`);
}

const results = [];
for (const { texts, ...choice } of [
  { texts: 1, temperature: 0 },
  { texts: 1, temperature: 0.8 },
  { texts: 1, temperature: 0.8, topK: 40, topP: 0.95 },
  { texts: 8, temperature: 0.8 },
  { texts: 32, temperature: 0.8 },
]) {
  const prompts = Array.from({ length: texts }, (_, index) => [50256, index]);
  /** Tokens of one text per second, with its prompt and the host's work. */
  const once = async (): Promise<number> => {
    const begun = performance.now();
    for await (const next of generate(caches.get(texts)!, { prompts, tokens, seed: 1, ...choice })) {
      if ('end' in next && next.end !== 'length') throw new Error(`a text ended: ${next.end}`);
    }
    return (tokens / (performance.now() - begun)) * 1000;
  };
  await once();
  const rounds = [await once(), await once(), await once(), await once(), await once()].sort((a, b) => a - b);
  const perSecond = rounds[2]!;
  results.push({ texts, ...choice, tokensPerSecondOfText: rounds, ofBound: perSecond / bound });
  console.log(
    `${texts} texts, ${JSON.stringify(choice)}: ${perSecond.toFixed(0)} tokens/s a text, ${((100 * perSecond) / bound).toFixed(1)}% of ${bound.toFixed(0)}`,
  );
}
const report = {
  date: new Date().toISOString().slice(0, 10),
  model: flags.model,
  dtype: device.dtype,
  ...device.description,
  tokens,
  weightBytes,
  ...peaks,
  boundTokensPerSecond: bound,
  ops,
  decoding,
  results,
};
if (flags.out) writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
