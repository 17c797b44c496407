// The thread that writes checkpoints: takes requests from background.ts, one at a time, and answers each.
import { parentPort } from 'node:worker_threads';
import { arenaLayout } from '../model/arena.ts';
import { realCount } from '../model/parameters.ts';
import { bytesOf } from '../native/buffer.ts';
import { viewMemory } from '../native/koffi.ts';
import type { WriteRequest } from './background.ts';
import { type State, saveState } from './write.ts';

function stateInMemory({ config, addresses }: WriteRequest): State {
  const { starts } = arenaLayout(config);
  return {
    config,
    read: (copy, parameter) => {
      const start = addresses[copy][parameter.kind] + BigInt(starts.get(parameter.name)! * bytesOf('fp32'));
      return new Float32Array(viewMemory(start, realCount(parameter) * bytesOf('fp32')));
    },
  };
}

parentPort!.on('message', (request: WriteRequest) => {
  parentPort!.postMessage(saveState(request.head, stateInMemory(request), request.keeping));
});
