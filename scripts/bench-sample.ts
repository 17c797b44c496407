// How fast texts are made, beside what memory allows: a token of one text reads every weight once. The model is as drawn; its
// choices are as much work as a trained one's. Written as JSON to --out, lines to stdout.
//   node --import tsx scripts/bench-sample.ts [--model d12] [--device cuda] [--dtype bf16] [--tokens 512] [--out FILE]
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measurePeaks } from '../src/bench/peaks.ts';
import { timeOnDevice } from '../src/bench/timing.ts';
import {
  createModel,
  Device,
  type Dtype,
  generate,
  initializeWeights,
  KeyValueCache,
  type Model,
  presetConfig,
  selectDevice,
} from '../src/index.ts';
import { parameterBytes } from '../src/model/arena.ts';
import { decode } from '../src/model/decode.ts';
import {
  attentionCachedForward,
  embeddingAtForward,
  layernormMatmulForward,
  layernormMatmulGeluForward,
  matmulResidualForward,
  sample,
} from '../src/ops/ops.generated.ts';
import { readOption } from '../src/options/read.ts';

const { values: flags } = parseArgs({
  options: {
    model: { type: 'string', default: 'd12' },
    device: { type: 'string', default: 'cuda' },
    dtype: { type: 'string', default: 'bf16' },
    tokens: { type: 'string', default: '512' },
    out: { type: 'string' },
  },
});

/** Where the one text of the times stands. */
const positions = [10, 500, 1000];
const usual = 500;

/** Microseconds of each of a token's ops, one after the other over all layers, so that no weight is left in L2. */
async function timeOps(model: Model, cache: KeyValueCache): Promise<{ name: string; calls: number; us: number }[]> {
  const { device, config, weights } = model;
  const { layers, model: whole } = model.activations.at(1, 1);
  const [wte, wpe] = [weights.get('wte'), weights.get('wpe')];
  const input = whole.embedded;
  const each = (run: (index: number) => void) => () => {
    for (let index = 0; index < config.layers; index++) run(index);
  };
  const logits = whole.logits.view([1, whole.logits.shape.at(-1)!]);
  const choose = (choice: object) => () => {
    const chosen = { temperature: 0.8, topK: 0, topP: 1, ...choice };
    sample(device, { ...cache, logits, V: config.vocabularySize, ...chosen });
  };
  const once = { calls: 1, least: 5 };
  // Choices move the text on: few of them.
  const few = { calls: 1, least: 0.5 };
  const perLayer = { calls: config.layers, least: 5 };
  const ops = [
    {
      name: 'embedding',
      ...once,
      run: () => embeddingAtForward(device, { out: input, ...cache, wte, wpe, V: config.vocabularySize }),
    },
    {
      name: 'layernorm + qkv',
      ...perLayer,
      run: each((index) => {
        const { ln1w: normWeight, ln1b: normBias, qkvw: weight, qkvb: bias } = weights.layer(index);
        layernormMatmulForward(device, { out: layers[index]!.qkv, in: input, normWeight, normBias, weight, bias });
      }),
    },
    {
      name: `attention at ${usual}`,
      ...perLayer,
      run: each((index) => {
        const { attention: out, qkv } = layers[index]!;
        attentionCachedForward(device, { out, ...cache.layers[index]!, qkv, positions: cache.positions });
      }),
    },
    {
      name: 'attproj + residual',
      ...perLayer,
      run: each((index) => {
        const { attprojw: weight, attprojb: bias } = weights.layer(index);
        const { residual2: out, attention } = layers[index]!;
        matmulResidualForward(device, { out, in: attention, weight, bias, residual: input });
      }),
    },
    {
      name: 'layernorm + fc + gelu',
      ...perLayer,
      run: each((index) => {
        const { ln2w: normWeight, ln2b: normBias, fcw: weight, fcb: bias } = weights.layer(index);
        const { gelu: out, fc: pre } = layers[index]!;
        layernormMatmulGeluForward(device, { out, pre, in: input, normWeight, normBias, weight, bias });
      }),
    },
    {
      name: 'fcproj + residual',
      ...perLayer,
      run: each((index) => {
        const { fcprojw: weight, fcprojb: bias } = weights.layer(index);
        const { residual3: out, gelu } = layers[index]!;
        matmulResidualForward(device, { out, in: gelu, weight, bias, residual: input });
      }),
    },
    {
      name: 'layernorm + head',
      ...once,
      run: () => {
        const norm = { normWeight: weights.get('lnfw'), normBias: weights.get('lnfb') };
        const rows = input.view([1, config.channels]);
        layernormMatmulForward(device, { out: logits, in: rows, ...norm, weight: wte, bias: null });
      },
    },
    { name: 'sample, temperature 0', ...few, run: choose({ temperature: 0 }) },
    { name: 'sample', ...few, run: choose({}) },
    { name: 'sample, top-k', ...few, run: choose({ topK: 40 }) },
    { name: 'sample, top-k and top-p', ...few, run: choose({ topK: 40, topP: 0.95 }) },
  ];
  const times = [];
  for (const { name, calls, least, run } of ops) {
    cache.positions.write(Int32Array.of(usual));
    times.push({ name, calls, us: ((await timeOnDevice(device, run, least)) * 1000) / calls });
  }
  return times;
}

const config = presetConfig(flags.model);
if (!config) throw new Error(`no model ${flags.model}`);
const tokens = Number(flags.tokens);
const dtype = readOption('dtype', flags.dtype) as Dtype;
using device = Device.open({ ...selectDevice(flags.device), dtype });
const peaks = await measurePeaks(device);
const model = createModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
initializeWeights(model, 42);

const weightBytes = parameterBytes(config, device.elementType, device.elementType);
/** A copy reads and writes; both count. */
const bound = peaks.copyBytesPerSecond / weightBytes;
const caches = new Map([1, 8, 32].map((texts) => [texts, new KeyValueCache(model, { texts, window: config.context })]));

const ops = await timeOps(model, caches.get(1)!);
for (const { name, calls, us } of ops) console.log(`${name.padEnd(24)} ${calls} x ${us.toFixed(2)} us`);
const decoding = [];
for (const position of positions) {
  const cache = caches.get(1)!;
  cache.positions.write(Int32Array.of(position));
  const run = () => decode(model, model.activations.at(1, 1), cache, { first: 0, rows: 1 });
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
  /** Tokens of one text a second: its prompt, and whatever the host does with it. */
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
if (flags.out !== undefined) writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
