// A training loop of one's own: GPT-2 on token shards, with a learning rate that follows the loss and one's own logging.
//   npm run prepro tinyshakespeare
//   node --import tsx examples/custom-loop.ts [DATA [STEPS]]
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

const [data = 'data/tinyshakespeare', steps = '20'] = process.argv.slice(2);
const target = selectDevice('auto');
const preset = presetConfig(target.kind === 'cuda' ? 'd12' : 'd6')!;
const config = { ...preset, vocabularySize: readDataset(data)?.vocabularySize ?? preset.vocabularySize };
const [batch, sequence] = target.kind === 'cuda' ? [16, 1024] : [2, 64];

using device = Device.open({ ...target, dtype: target.kind === 'cuda' ? 'bf16' : 'fp32' });
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
  optimizer: new AdamW({ weightDecay: 0.1 }),
  gradientClip: 1,
});

let [learningRate, best] = [6e-4, Number.POSITIVE_INFINITY];
for (let step = 0; step < Number(steps); step++) {
  const { loss, norm } = await trainer.step(step, learningRate, () => loader.next());
  best = Math.min(best, loss);
  if (loss > best + 0.5) learningRate /= 2;
  console.log(
    `${step}  loss ${loss.toFixed(4)}  norm ${norm.toFixed(2)}  learning rate ${learningRate.toExponential(1)}`,
  );
}
