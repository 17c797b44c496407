// Sums and copies over ranks. Each runs behind what was issued before it and beside what comes next: `joinCollectives` puts
// what comes next behind it. See cuda/gpt2.h.
import { GPT2_DTYPE, type Pointer } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/buffer.ts';
import type { Communicator } from '../native/communicator.ts';
import { dimensions, expect } from './dimensions.ts';

/** `data` becomes the sum of every rank's. */
export function allReduce(communicator: Communicator, data: Tensor): void {
  communicator.device.call('allReduce', {
    data: data.pointer,
    communicator: communicator.handle,
    count: data.count,
    dtype: dtypeOf('all_reduce', data),
  });
}

/**
 * The rows of `out` [communicator.parts, N] become, from element `start` on, what adds up to this rank's part of the sum of every
 * rank's `input`: its sum, or each rank's. `out` lies in memory that is shared.
 */
export function reduceScatter(
  communicator: Communicator,
  { out, start, input }: { out: Tensor; start: number; input: Tensor },
): void {
  const { parts, ranks } = communicator;
  dimensions('reduce_scatter', { out: [out, input.type, 'N'] });
  const [rows, stride] = [out.shape[0]!, out.count / out.shape[0]!];
  const count = input.count / ranks;
  expect('reduce_scatter', rows === parts, `out has ${rows} rows, not ${parts}`);
  expect('reduce_scatter', Number.isInteger(count), `${input.count} elements are not ${ranks} parts`);
  expect('reduce_scatter', start + count <= stride, `rows of ${stride} elements do not hold ${count} from ${start}`);
  communicator.device.call('reduceScatter', {
    out: out.view([count], start).pointer,
    in: input.pointer,
    communicator: communicator.handle,
    count,
    stride,
    dtype: dtypeOf('reduce_scatter', input),
  });
}

/** `out` becomes every rank's `input`, one behind the other; `input` may be this rank's part of it. */
export function allGather(communicator: Communicator, { out, input }: { out: Tensor; input: Tensor }): void {
  const { ranks } = communicator;
  dimensions('all_gather', { out: [out, input.type, 'N'] });
  expect('all_gather', out.count === ranks * input.count, `${out.count} elements are not ${ranks} of ${input.count}`);
  communicator.device.call('allGather', {
    out: out.pointer,
    in: input.pointer,
    communicator: communicator.handle,
    count: input.count,
    dtype: dtypeOf('all_gather', input),
  });
}

/** What is issued from now on runs behind the collectives issued so far. */
export function joinCollectives(communicator: Communicator): void {
  communicator.device.call('collectivesJoin', { communicator: communicator.handle });
}

/** Puts an event behind the collectives issued so far: what `device.behind` puts behind it has joined them. */
export function recordCollectives(communicator: Communicator, event: Pointer): void {
  communicator.device.call('collectivesRecord', { communicator: communicator.handle, event });
}

/** Has the collectives that `issue` issues begin together; it issues nothing else. */
export function groupCollectives(communicator: Communicator, issue: () => void): void {
  const { device } = communicator;
  const end = () => device.call('collectivesGroupEnd', { communicator: communicator.handle });
  device.call('collectivesGroupBegin', { communicator: communicator.handle });
  try {
    issue();
  } catch (error) {
    try {
      end();
    } catch {
      // What went wrong first is what there is to tell.
    }
    throw error;
  }
  end();
}

function dtypeOf(op: string, { name, type }: Tensor): number {
  expect(op, type !== 'int32', `${name} must be fp32 or bf16, not int32`);
  return type === 'bf16' ? GPT2_DTYPE.GPT2_BF16 : GPT2_DTYPE.GPT2_FP32;
}
