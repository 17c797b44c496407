// Writes a checkpoint's logits and losses, in fp32 by the CPU library, for check-export. Reads token ids as a JSON array from stdin;
// writes fp32: logits [T,V], whose row t is computed from the tokens up to and including t, then the losses [T-1] of all but the first.
//
//   node --import tsx scripts/write-logits.ts RUN|CHECKPOINT FILE <<<'[50256, 11, 262]'
import { readFileSync, writeFileSync } from 'node:fs';
import { createModel, Device, loadWeights, logits, lossesOf, resolveCheckpoint } from '../src/index.ts';

const [from, into] = process.argv.slice(2);
if (!from || !into) throw new Error('usage: write-logits.ts RUN|CHECKPOINT FILE');
const tokens = Int32Array.from(JSON.parse(readFileSync(0, 'utf8')) as number[]);
const checkpoint = resolveCheckpoint(from);
using device = Device.open({ kind: 'cpu', dtype: 'fp32' });
const T = tokens.length;
const model = createModel(device, checkpoint.manifest.model, { B: 1, T, purpose: 'inference' });
loadWeights(checkpoint, model);
writeFileSync(into, await logits(model, { inputs: tokens }, { sequence: T }));
writeFileSync(into, await lossesOf(model, tokens), { flag: 'a' });
