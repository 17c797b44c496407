// The thread that writes checkpoints: handles requests from background.ts one at a time, and answers each.
import { parentPort } from 'node:worker_threads';
import { type Parameter, realCount } from '../../model/parameters.ts';
import { bytesOf } from '../../native/element-types.ts';
import { viewMemory } from '../../native/koffi.ts';
import type { Values } from '../files/safetensors.ts';
import type { CopyInMemory, WriteRequest } from './background.ts';
import { saveState } from './write.ts';

const valuesOf = ({ addresses, ...named }: CopyInMemory): Values => ({
  ...named,
  read: (parameter: Parameter) => {
    const bytes = realCount(parameter) * bytesOf('fp32');
    return new Float32Array(viewMemory(addresses.get(parameter.name)!, bytes));
  },
});

parentPort!.on('message', ({ head, config, copies, keeping }: WriteRequest) => {
  const [weights, ...optimizer] = copies.map(valuesOf);
  parentPort!.postMessage(saveState(head, { config, weights: weights!, optimizer }, keeping));
});
