// A kernel of one's own in a training loop: a moving average of the weights, in one launch after each step.
//   node --import tsx examples/weight-average.ts
import * as gpt2 from 'gpt2.ts';

using device = gpt2.Device.open({ ...gpt2.selectDevice('auto'), dtype: 'fp32' });
const source = `
  __global__ void average(float *mean, const float *weight, float decay, long long count) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < count) mean[i] = decay * mean[i] + (1 - decay) * weight[i];
  }`;
const { average } = await gpt2.compileKernels<'average'>(device, { source });
const config = { vocabularySize: 100, context: 32, layers: 2, heads: 2, channels: 32 };
const model = gpt2.createModel(device, config, { B: 4, T: 32, purpose: 'training' });
gpt2.initializeWeights(model, 42);
const optimizer = new gpt2.AdamW({ weightDecay: 0.1 });
const trainer = new gpt2.Trainer(model, { batch: 4, sequence: 32, accumulation: 1, optimizer, gradientClip: 1 });
const tokens = Int32Array.from({ length: 4 * 32 + 1 }, (_, i) => (i * i) % 100);
const batch = { inputs: tokens.subarray(0, -1), targets: tokens.subarray(1) };
const weight = model.weights.matrices; // all matrices, one after the other
const mean = gpt2.tensorOf(device, weight.read());
for (let step = 0; step < 20; step++) {
  const { loss } = await trainer.step(step, 1e-3, () => batch);
  average.launch({ grid: Math.ceil(weight.count / 256), block: 256 }, mean, weight, 0.9, weight.count);
  const [last, averaged] = [weight.read(), mean.read()];
  const distance = Math.hypot(...last.map((value, i) => value - averaged[i]!));
  console.log(`${step}  loss ${loss.toFixed(4)}  from the average to the weights ${distance.toFixed(4)}`);
}
