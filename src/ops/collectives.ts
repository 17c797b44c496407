// Collectives: sums and copies over ranks. A collective starts after the work that was enqueued before it, and runs concurrently with
// later work. Only work that is enqueued after a call of `joinCollectives` waits for earlier collectives. See cuda/gpt2.h.
import { orElse } from '../base/errors.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import type { Communicator } from '../native/communicator.ts';
import type { Tensor } from '../native/tensor.ts';
import type { NativeArguments, OpContract } from './contract.ts';
import { nativeArguments, refused } from './enqueue.ts';
import { contracts } from './ops.generated.ts';
import type { OpArguments } from './replacements.ts';

function enqueueOver(communicator: Communicator, op: OpContract, args: OpArguments, also: NativeArguments = {}): void {
  const { device, handle } = communicator;
  const native = { ...nativeArguments(device, op, { ...args, communicator: handle }), ...also };
  device.call(op.name as 'allReduce', native as never);
}

/** Enqueues a sum over ranks: on every rank, `data` becomes the sum of the ranks' `data`. */
export function allReduce(communicator: Communicator, data: Tensor): void {
  enqueueOver(communicator, contracts.allReduce, { data });
}

/**
 * Enqueues a sum of the ranks' `in` [ranks*count]. Rank r gets elements r*count to (r+1)*count - 1 of the sum, in `out`
 * [communicator.parts,stride] from element `start` of each row on. The caller must add the rows. `allocateShared` makes `out`.
 * @throws ShapeError if `in` does not divide between the ranks, or the rows of `out` are too short
 */
export function reduceScatter(
  communicator: Communicator,
  { out, start, in: input }: { out: Tensor; start: number; in: Tensor },
): void {
  const { parts, ranks } = communicator;
  const op = contracts.reduceScatter;
  const count = input.count / ranks;
  const stride = out.count / parts;
  if (out.shape[0] !== parts) throw refused(op, `out has ${out.shape[0]} rows, not ${parts}`);
  if (!Number.isInteger(count)) throw refused(op, `${input.count} elements do not divide between ${ranks} ranks`);
  if (start + count > stride) throw refused(op, `rows of ${stride} elements do not hold ${count} from ${start}`);
  if (out.type !== input.type) throw refused(op, `out is ${out.type}, but in is ${input.type}`);
  const pointer = out.view([count], start).pointer;
  enqueueOver(communicator, op, { out: out.view([parts, stride]), in: input.view([ranks, count]) }, { out: pointer });
}

/** Enqueues copies of all ranks' `in` into `out`, in the order of ranks. `in` may be this rank's part of `out`. */
export function allGather(communicator: Communicator, { out, in: input }: { out: Tensor; in: Tensor }): void {
  const { ranks } = communicator;
  const op = contracts.allGather;
  if (out.type !== input.type) throw refused(op, `out is ${out.type}, but in is ${input.type}`);
  if (out.count !== ranks * input.count) throw refused(op, `${out.count} elements are not ${ranks} of ${input.count}`);
  enqueueOver(communicator, op, { out: out.view([ranks, input.count]), in: input });
}

/** Makes work enqueued from now on wait for the collectives enqueued so far. */
export function joinCollectives(communicator: Communicator): void {
  communicator.device.call('collectivesJoin', { communicator: communicator.handle });
}

/** Records an event after the collectives enqueued so far; `device.startAfter` waits for it. */
export function recordCollectives(communicator: Communicator, event: Pointer): void {
  communicator.device.call('collectivesRecord', { communicator: communicator.handle, event });
}

/** Runs `enqueue`, which must enqueue only collectives, and starts these collectives together. */
export function groupCollectives(communicator: Communicator, enqueue: () => void): void {
  const { device } = communicator;
  const end = () => device.call('collectivesGroupEnd', { communicator: communicator.handle });
  device.call('collectivesGroupBegin', { communicator: communicator.handle });
  try {
    enqueue();
  } catch (error) {
    // Ends the group. If ending fails too, only the first failure is thrown.
    orElse(undefined, end);
    throw error;
  }
  end();
}
