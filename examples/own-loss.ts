// A loss of one's own: cross-entropy with label smoothing, by a kernel. Its gradient is compared with finite differences.
//   node --import tsx examples/own-loss.ts
import type { LossRows } from 'gpt2.ts';
import { AdamW, compileKernels, createModel, Device, initializeWeights, selectDevice, Trainer } from 'gpt2.ts';

// The target has the probability 1 - smoothing, and every token smoothing / V besides. One thread computes a row.
const source = `
  constexpr float smoothing = 0.1f;
  __global__ void smooth(float *losses, float *logits, const int *targets, int N, int V, int padded, float dloss, int backward) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    float *x = logits + static_cast<size_t>(row) * padded;
    const int target = targets[row];
    float largest = x[0], sum = 0, mean = 0;
    for (int v = 1; v < V; v++) largest = fmaxf(largest, x[v]);
    for (int v = 0; v < V; v++) sum += expf(x[v] - largest), mean += x[v] / V;
    const float loss = logf(sum) + largest - (target < 0 ? 0 : (1 - smoothing) * x[target]) - smoothing * mean;
    if (!backward) losses[row] = target < 0 ? 0 : loss;
    else for (int v = 0; v < padded; v++) {
      const float wanted = smoothing / V + (v == target ? 1 - smoothing : 0);
      x[v] = v < V && target >= 0 ? (expf(x[v] - largest) / sum - wanted) * dloss : 0;
    }
  }`;
using device = Device.open({ ...selectDevice('auto'), dtype: 'fp32' });
const { smooth } = await compileKernels<'smooth'>(device, { source });
const enqueue = (backward: number, { losses, logits, targets, vocabularySize, dloss }: LossRows) => {
  const [N, padded] = logits.shape as [number, number];
  const shape = { grid: Math.ceil(N / 32), block: 32 };
  smooth.launch(shape, losses, logits, targets, N, vocabularySize, padded, dloss, backward);
};
const loss = { forward: (rows: LossRows) => enqueue(0, rows), backward: (rows: LossRows) => enqueue(1, rows) };

const [batch, sequence, vocabularySize] = [2, 16, 64];
const config = { layers: 2, channels: 32, heads: 2, context: sequence, vocabularySize };
const model = createModel(device, config, { B: batch, T: sequence, purpose: 'training' });
initializeWeights(model, 42);
const sizes = { batch, sequence, accumulation: 1 };
const optimizer = new AdamW({ weightDecay: 0 });
const trainer = new Trainer(model, { ...sizes, optimizer, gradientClip: 0, loss });
const inputs = Int32Array.from({ length: batch * sequence }, (_, at) => (at * 7) % vocabularySize);
const tokens = { inputs, targets: inputs.slice().reverse() };
const lossNow = async () => (await trainer.step(0, 0, () => tokens)).loss; // at a rate of 0 no weight changes

for (const name of ['wte', 'lnfw', 'h.0.qkvw', 'h.1.fcb']) {
  await lossNow();
  const [weight, gradient] = [model.masters.get(name), trainer.gradients.get(name).read() as Float32Array];
  const at = gradient.reduce((most, value, index) => (Math.abs(value) > Math.abs(gradient[most]!) ? index : most), 0);
  const [before, h] = [(weight.read() as Float32Array)[at]!, 0.01];
  const losses = [];
  for (const value of [before + h, before - h, before]) {
    weight.write(Float32Array.of(value), at);
    losses.push(await lossNow());
  }
  const difference = (losses[0]! - losses[1]!) / (2 * h);
  console.log(`${name}[${at}]: gradient ${gradient[at]!.toFixed(5)}, finite difference ${difference.toFixed(5)}`);
  if (Math.abs(gradient[at]! / difference - 1) > 0.02) process.exitCode = 1;
}
