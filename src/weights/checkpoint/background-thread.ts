// The thread that writes checkpoints: handles requests from background.ts one at a time, and answers each.
import { parentPort } from 'node:worker_threads';
import { type Parameter, realCount } from '../../model/parameters.ts';
import { bytesOf } from '../../native/element-types.ts';
import { viewMemory } from '../../native/koffi.ts';
import type { Values } from '../files/safetensors.ts';
import type { CopyInMemory, WriteRequest } from './background.ts';
import { type State, saveState } from './write.ts';

const valuesOf = ({ addresses, ...named }: CopyInMemory): Values => ({
  ...named,
  read: (parameter: Parameter) => {
    const bytes = realCount(parameter) * bytesOf('fp32');
    return new Float32Array(viewMemory(addresses.get(parameter.name)!, bytes));
  },
});

function stateInMemory({ config, copies }: WriteRequest): State {
  const [weights, ...optimizer] = copies.map(valuesOf);
  return { config, weights: weights!, optimizer };
}

parentPort!.on('message', (request: WriteRequest) => {
  parentPort!.postMessage(saveState(request.head, stateInMemory(request), request.keeping));
});
