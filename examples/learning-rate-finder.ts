// Which learning rate to begin with: it rises from step to step until the loss turns up (Smith 2015), and a tenth of where the
// loss was least is a good start.
//   node --import tsx examples/learning-rate-finder.ts [DATA [STEPS]]
import {
  AdamW,
  createModel,
  Device,
  findShards,
  Gpt2Error,
  initializeWeights,
  openLoader,
  presetConfig,
  readDataset,
  selectDevice,
  Trainer,
} from 'gpt2.ts';

// An error of the options or the files is one line, without a stack.
process.once('uncaughtException', (error) => {
  console.error(error instanceof Gpt2Error ? error.message : error);
  process.exit(1);
});

const [data = 'data/tinyshakespeare', count = '60'] = process.argv.slice(2);
const [steps, from, to] = [Number(count), 1e-6, 1];
if (!(steps >= 2)) {
  console.error(`a rate that rises takes at least 2 steps, not ${count}`);
  process.exit(1);
}
const target = selectDevice('auto');
const preset = presetConfig('d6')!;
const config = { ...preset, vocabularySize: readDataset(data)?.vocabularySize ?? preset.vocabularySize };
const [batch, sequence] = [4, 64];

using device = Device.open(target);
using loader = openLoader({
  shards: findShards(data, 'train'),
  ...{ batch, sequence, order: 'sequence', seed: 42, vocabularySize: config.vocabularySize },
});
const model = createModel(device, config, { B: batch, T: sequence, purpose: 'training' });
initializeWeights(model, 42);
const trainer = new Trainer(model, {
  batch,
  sequence,
  accumulation: 1,
  optimizer: new AdamW({ weightDecay: 0 }),
  gradientClip: 1,
});

let [smooth, least, best] = [0, Number.POSITIVE_INFINITY, from];
for (let step = 0; step < steps; step++) {
  const learningRate = from * (to / from) ** (step / (steps - 1));
  const { loss, updated } = await trainer.step(step, learningRate, () => loader.next());
  smooth = step === 0 ? loss : 0.8 * smooth + 0.2 * loss;
  console.log(`${learningRate.toExponential(2)}  ${smooth.toFixed(4)}`);
  if (!updated || smooth > 1.5 * least) break;
  if (smooth < least) [least, best] = [smooth, learningRate];
}
console.log(`try ${(best / 10).toExponential(1)}`);
