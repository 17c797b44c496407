// Writes a checkpoint's logits, in fp32 by the CPU library, for check-export. Reads token ids as a JSON array from stdin; writes
// an fp32 [T,V], whose row t is computed from the tokens up to and including t.
//
//   node --import tsx scripts/write-logits.ts RUN|CHECKPOINT FILE <<<'[50256, 11, 262]'
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { forward } from '../src/model/forward.ts';
import { createModel } from '../src/model/model.ts';
import { Device } from '../src/native/device.ts';
import { resolveCheckpoint } from '../src/weights/checkpoint/directory.ts';
import { loadWeights } from '../src/weights/checkpoint/read-checkpoint.ts';
import { logitsAt } from './logits-at.ts';

const [from, into] = process.argv.slice(2);
if (!from || !into) throw new Error('usage: write-logits.ts RUN|CHECKPOINT FILE');
const tokens = Int32Array.from(JSON.parse(readFileSync(0, 'utf8')) as number[]);
const checkpoint = resolveCheckpoint(from);
using device = Device.open({ kind: 'cpu', dtype: 'fp32' });
const T = tokens.length;
const model = createModel(device, checkpoint.manifest.model, { B: 1, T, purpose: 'inference' });
loadWeights(checkpoint, model);
const batch = model.activations.at(1, T);
batch.model.tokens.write(tokens);
forward(model, batch);
await device.finished();
const file = openSync(into, 'w');
for (let position = 0; position < T; position++) writeSync(file, logitsAt(model, batch, position));
closeSync(file);
