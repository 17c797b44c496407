// The program that compute-sanitizer watches: small steps of a whole model in every dtype, with AdamW and Muon, accumulation, validation and a
// sample, op by op and as graphs, at sizes with ragged edges. Not a test of results; those are in the other suites.
//   small-steps.ts [PART/PARTS]      1/7: the first of every seven runs (default: all)
import { meanLoss } from '../../src/inference/evaluate/mean-loss.ts';
import { generate } from '../../src/inference/sample/generate.ts';
import { casesNamed } from '../../src/lab/ops.ts';
import type { ModelConfig } from '../../src/model/config.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { KeyValueCache } from '../../src/model/key-value-cache.ts';
import { linearBackwardInput, linearForward } from '../../src/model/linear.ts';
import { createModel } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { allocateTensor } from '../../src/native/tensor.ts';
import { runCase } from '../../src/ops/cases/run-case.ts';
import { matmulScratch } from '../../src/ops/ops.generated.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import { isBlockMatrix, Muon } from '../../src/optimizer/muon.ts';
import { Trainer } from '../../src/train/step/trainer.ts';

// Racecheck follows every access to shared memory: small enough that it ends within a minute.
const shapes: (ModelConfig & { B: number; T: number })[] = [
  // Tensor-core kernels: two tiles a side, ragged ends, the head size of GPT-2.
  { layers: 1, channels: 192, heads: 3, context: 160, vocabularySize: 131, B: 1, T: 150 },
  // The other form of attention's tensor-core kernels.
  { layers: 1, channels: 160, heads: 2, context: 40, vocabularySize: 61, B: 2, T: 33 },
  // Nothing divisible: the kernels for any size.
  { layers: 1, channels: 37 * 2, heads: 2, context: 16, vocabularySize: 61, B: 2, T: 9 },
];

const adamw = new AdamW({ weightDecay: 0.1 });
const muon = new Muon({ rate: 20, weightDecay: 0.1 });

const [, part, parts] = /^(\d+)\/(\d+)$/.exec(process.argv[2] ?? '1/1')!.map(Number) as [number, number, number];
let runs = 0;
const isWanted = () => ++runs % parts === part % parts;

const probe = Device.open({ kind: 'cuda' });
const { dtypes } = probe.description;
probe.close();
for (const dtype of dtypes) {
  // The first shape takes both ways of keeping gradients and of enqueuing, the others one; tf32 differs in matmuls only.
  for (const accumulation of [1, 2]) {
    for (const { B, T, ...config } of shapes.slice(0, dtype !== 'tf32' && accumulation === 1 ? 3 : 1)) {
      if (dtype === 'tf32' && accumulation > 1) continue;
      if (dtype === 'fp8' && config.channels % 16 !== 0) continue;
      if (!isWanted()) continue;
      using device = Device.open({ kind: 'cuda', dtype, accumulates: accumulation > 1, graphs: accumulation === 1 });
      const model = createModel(device, config, { B, T, purpose: 'training' });
      const trainer = new Trainer(model, {
        batch: B,
        sequence: T,
        accumulation,
        optimizer: (parameter) => (isBlockMatrix(parameter) ? muon : adamw),
        gradientClip: 1,
      });
      initializeWeights(model, 42);
      let next = 0;
      const tokens = () => Int32Array.from({ length: B * T }, () => (next = (next * 7 + 3) % config.vocabularySize));
      const batch = () => ({ inputs: tokens(), targets: tokens() });
      const { loss, norm } = await trainer.step(0, 1e-3, batch);
      if (!Number.isFinite(loss) || !Number.isFinite(norm)) throw new Error(`${dtype}: loss ${loss}, norm ${norm}`);
      await meanLoss(model, { batch: B, sequence: T, batches: 1 }, batch);
      const cache = new KeyValueCache(model, { texts: 3, window: 9 });
      for (const choice of [{ topK: 5, topP: 0.9 }, { temperature: 0 }]) {
        const generation = generate(cache, { prompts: [[1, 2], [3], [4, 5, 6]], tokens: 10, seed: 1, ...choice });
        for await (const next of generation) if ('end' in next && next.end !== 'length') throw new Error(next.end);
      }
      console.log(`${dtype}, ${config.channels} channels, ${accumulation} micro-batches: loss ${loss.toFixed(4)}`);
    }
  }
}

// Hopper's tiles of 208 columns, which only large models come to: two and a ragged end, of a long k.
if (isWanted()) {
  using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
  const [N, C, O] = [300, 4096, 440];
  const scratch = (C: number, O: number) => matmulScratch(device, { N, C, O, gradients: true });
  device.reserveWorkspace(Math.max(scratch(C, O), scratch(O, C)));
  const tensor = (name: string, ...shape: number[]) => allocateTensor(device, name, 'bf16', shape);
  const [wide, narrow, residual] = [tensor('wide', N, C), tensor('narrow', N, O), tensor('residual', N, O)];
  const [weight, turned, bias] = [tensor('weight', O, C), tensor('turned', C, O), tensor('bias', O)];
  linearForward(device, { out: { plain: narrow }, in: { plain: wide }, weight, bias, residual });
  linearBackwardInput(device, { din: { plain: narrow }, dout: { plain: wide }, weight: turned });
  await device.finished();
}
// Attention with a mask, in each of its kernels: windows and documents shorter and longer than a tile.
for (const HS of [64, 128, 96, 20]) {
  if (!isWanted()) continue;
  using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
  const sizes = { B: 2, T: 330, C: 2 * HS, NH: 2, window: 140, documents: 200 };
  for (const op of ['attention_forward.masked', 'attention_backward.masked']) {
    await runCase(device, { ...casesNamed(op), formula: () => ({}), bounds: () => ({}) }, sizes);
  }
}
console.log('small steps done');
