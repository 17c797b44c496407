// Times attention alone, with masks and without: 65,536 tokens of 768 channels in bf16, heads of 64 and 128. bench-pytorch-ops.py
// adds PyTorch's FlexAttention with the same masks.
//   node --import tsx scripts/bench-attention.ts --out FILE.json
import { writeFileSync } from 'node:fs';
import { toBf16 } from '../src/base/files/half-floats.ts';
import { timeOnDevice } from '../src/lab/bench/timing.ts';
import { Device } from '../src/native/device.ts';
import { allocateTensor } from '../src/native/tensor.ts';
import { Random } from '../src/ops/cases/case-numbers.ts';
import { attentionBackward, attentionForward, attentionScratch } from '../src/ops/ops.generated.ts';
import { readFlags } from './flags.ts';

const { out: file } = readFlags({ out: '' });
const [tokens, C] = [65_536, 768];
/** By mask: the window and the longest document in tokens; 0: no limit. */
const masks = {
  full: [0, 0],
  'window 1024': [1024, 0],
  'window 512': [512, 0],
  short: [0, 1400],
  long: [0, 14_000],
} as const;

/** The first key that each query attends to. The lengths of documents, 1 to `documents` tokens, are in no order. */
function firstOf(T: number, window: number, documents: number): Int32Array {
  let [start, end, index] = [0, 0, 0];
  return new Int32Array(tokens).map((_, at) => {
    const t = at % T;
    if (t === 0 || t === end) [start, end] = [t, documents > 0 ? t + 1 + ((++index * 7919) % documents) : T];
    return Math.max(start, window > 0 ? t - window + 1 : 0);
  });
}

using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
const noise = toBf16(new Random(1).normals(1 << 20));
const tensor = (name: string, type: 'bf16' | 'fp32' | 'int32', width: number) => {
  const made = allocateTensor(device, name, type, [tokens, width]);
  if (type === 'bf16') made.write(new Uint16Array(made.count).map((_, index) => noise[index % noise.length]!));
  return made;
};
const all = { qkv: tensor('qkv', 'bf16', 3 * C), dqkv: tensor('dqkv', 'bf16', 3 * C), out: tensor('out', 'bf16', C) };
const [allDout, allLse, allFirst] = [tensor('dout', 'bf16', C), tensor('lse', 'fp32', 12), tensor('first', 'int32', 1)];
const rows: object[] = [];
for (const NH of [12, 6]) {
  for (const T of [1024, 4096, 16_384, tokens]) {
    const B = tokens / T;
    device.reserveWorkspace(attentionScratch(device, { B, T, C, NH }));
    const [qkv, dqkv] = [all.qkv.view([B, T, 3 * C]), all.dqkv.view([B, T, 3 * C])];
    const [out, dout, lse] = [all.out.view([B, T, C]), allDout.view([B, T, C]), allLse.view([B, NH, T])];
    for (const [mask, [window, documents]] of Object.entries(masks)) {
      const values = firstOf(T, window, documents);
      allFirst.write(values);
      const op = { out, lse, qkv, first: mask === 'full' ? null : allFirst.view([B, T]) };
      const forward = await timeOnDevice(device, () => attentionForward(device, op), 30);
      const backward = await timeOnDevice(device, () => attentionBackward(device, { ...op, dqkv, dout }), 30);
      // Two products in forward and five in backward: 14 C operations for each pair of a query and a key.
      const teraflops =
        values.reduce((sum, key, at) => sum + (at % T) + 1 - key, 0) * 14e-9 * (C / (forward + backward));
      rows.push({ heads: NH, T, mask, window, documents, forward, backward, teraflops });
      const figures = [forward, backward, forward + backward].map((ms) => ms.toFixed(3)).join('  ');
      console.log(`heads of ${C / NH}, T ${T}, ${mask}: ${figures} ms, ${teraflops.toFixed(0)} TFLOP/s`);
    }
  }
}
const measured = { date: new Date().toISOString(), device: device.description.device, rows };
if (file !== '') writeFileSync(file, `${JSON.stringify(measured, undefined, 1)}\n`);
