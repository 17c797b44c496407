// Times attention alone, forward and backward, with masks and without: 65,536 tokens of 768 channels in bf16, at heads of 64 and 128.
// scripts/bench-attention.py adds PyTorch's FlexAttention with the same masks.
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
/** Window and longest document, 0 for none. Documents have 1 to `documents` tokens in no order. */
const masks = {
  full: { window: 0, documents: 0 },
  'window 1024': { window: 1024, documents: 0 },
  'window 512': { window: 512, documents: 0 },
  documents: { window: 0, documents: 1400 },
  'long documents': { window: 0, documents: 14_000 },
};

function firstOf(T: number, { window, documents }: { window: number; documents: number }): Int32Array {
  let [start, end, index] = [0, 0, 0];
  return new Int32Array(tokens).map((_, at) => {
    const t = at % T;
    if (t === 0 || t === end) {
      start = t;
      end = documents > 0 ? t + 1 + ((++index * 7919) % documents) : T;
    }
    return Math.max(start, window > 0 ? t - window + 1 : 0);
  });
}

using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
const random = new Random(1);
const noise = toBf16(random.normals(1 << 20));
const filled = (name: string, ...shape: number[]) => {
  const tensor = allocateTensor(device, name, 'bf16', shape);
  tensor.write(new Uint16Array(tensor.count).map((_, index) => noise[(index * 7) % noise.length]!));
  return tensor;
};
const rows: object[] = [];
for (const NH of [12, 6]) {
  const flat = { qkv: filled('qkv', 1, tokens, 3 * C), dout: filled('dout', 1, tokens, C) };
  const dqkvOf = allocateTensor(device, 'dqkv', 'bf16', [1, tokens, 3 * C]);
  const outOf = allocateTensor(device, 'out', 'bf16', [1, tokens, C]);
  const lseOf = allocateTensor(device, 'lse', 'fp32', [1, NH, tokens]);
  const firstIn = allocateTensor(device, 'first', 'int32', [1, tokens]);
  for (const T of [1024, 4096, 16_384, tokens]) {
    const B = tokens / T;
    device.reserveWorkspace(attentionScratch(device, { B, T, C, NH }));
    const [qkv, dqkv] = [flat.qkv.view([B, T, 3 * C]), dqkvOf.view([B, T, 3 * C])];
    const [out, dout, lse] = [outOf.view([B, T, C]), flat.dout.view([B, T, C]), lseOf.view([B, NH, T])];
    for (const [mask, sizes] of Object.entries(masks)) {
      const values = firstOf(T, sizes);
      firstIn.write(values);
      const first = mask === 'full' ? null : firstIn.view([B, T]);
      const forward = await timeOnDevice(device, () => attentionForward(device, { out, lse, qkv, first }), 30);
      const op = { dqkv, dout, out, qkv, lse, first };
      const backward = await timeOnDevice(device, () => attentionBackward(device, op), 30);
      const seen = values.reduce((sum, key, at) => sum + (at % T) + 1 - key, 0);
      const teraflops = (14 * seen * C) / (forward + backward) / 1e9;
      rows.push({ heads: NH, T, mask, ...sizes, forward, backward, both: forward + backward, teraflops });
      const figures = [forward, backward, forward + backward].map((ms) => ms.toFixed(3)).join('  ');
      console.log(`heads of ${C / NH}, T ${T}, ${mask}: ${figures} ms, ${teraflops.toFixed(0)} TFLOP/s`);
    }
  }
}
const { device: name, codePath } = device.description;
const command = `scripts/bench-attention.ts ${process.argv.slice(2).join(' ')}`;
const measured = { date: new Date().toISOString(), command, device: name, codePath, rows };
if (file !== '') writeFileSync(file, `${JSON.stringify(measured, undefined, 1)}\n`);
