// How fast texts are made, beside what memory allows: a token of one text reads every weight once. The model is as drawn; its
// choices are as much work as a trained one's. Written as JSON to --out, a line for each case to stdout.
//   node --import tsx scripts/bench-sample.ts [--model d12] [--device cuda] [--dtype bf16] [--tokens 512] [--out FILE]
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measurePeaks } from '../src/bench/peaks.ts';
import {
  createModel,
  Device,
  generate,
  initializeWeights,
  KeyValueCache,
  presetConfig,
  selectDevice,
} from '../src/index.ts';
import { parameterBytes } from '../src/model/parameters.ts';
import { readOption } from '../src/train/options.ts';

const { values: flags } = parseArgs({
  options: {
    model: { type: 'string', default: 'd12' },
    device: { type: 'string', default: 'cuda' },
    dtype: { type: 'string', default: 'bf16' },
    tokens: { type: 'string', default: '512' },
    out: { type: 'string' },
  },
});
const config = presetConfig(flags.model);
if (!config) throw new Error(`no model ${flags.model}`);
const tokens = Number(flags.tokens);
using device = Device.open({
  ...selectDevice(flags.device),
  dtype: readOption('dtype', flags.dtype) as 'bf16' | 'fp32' | 'tf32',
});
const peaks = await measurePeaks(device);
const model = createModel(device, config, { B: 1, T: config.context, purpose: 'inference' });
initializeWeights(model, 42);

const weightBytes = parameterBytes(config, device.elementType, device.elementType);
/** A copy reads and writes; both count. */
const bound = peaks.copyBytesPerSecond / weightBytes;
const cases = [
  { texts: 1, choice: { temperature: 0 } },
  { texts: 1, choice: { temperature: 0.8 } },
  { texts: 1, choice: { temperature: 0.8, topK: 40, topP: 0.95 } },
  { texts: 8, choice: { temperature: 0.8 } },
  { texts: 32, choice: { temperature: 0.8 } },
];
const results = [];
for (const { texts, choice } of cases) {
  const cache = new KeyValueCache(model, { texts, window: config.context });
  const prompts = Array.from({ length: texts }, (_, index) => [50256, index]);
  /** Tokens of one text a second, its prompt and whatever the host does with it. */
  const once = async (): Promise<number> => {
    const begun = performance.now();
    for await (const next of generate(cache, { prompts, tokens, seed: 1, ...choice })) {
      if ('end' in next && next.end !== 'length') throw new Error(`a text ended: ${next.end}`);
    }
    return (tokens / (performance.now() - begun)) * 1000;
  };
  await once();
  const rounds = [await once(), await once(), await once(), await once(), await once()].sort((a, b) => a - b);
  const perSecond = rounds[2]!;
  results.push({ texts, ...choice, tokensPerSecondOfText: rounds, share: perSecond / bound });
  const said = `${texts} texts, ${JSON.stringify(choice)}: ${perSecond.toFixed(0)} tokens/s a text, ${(1e6 / perSecond).toFixed(1)} us each`;
  console.log(`${said}, ${((100 * perSecond) / bound).toFixed(1)}% of ${bound.toFixed(0)}`);
}
const { description } = device;
const report = {
  date: new Date().toISOString().slice(0, 10),
  model: flags.model,
  dtype: device.dtype,
  ...description,
  tokens,
  weightBytes,
  ...peaks,
  boundTokensPerSecond: bound,
  results,
};
if (flags.out !== undefined) writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
