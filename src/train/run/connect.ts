// Joins the devices of ranks and tries the way between them before step 0: a sum that is known, and how fast large ones are.
import { setTimeout } from 'node:timers/promises';
import { Gpt2Error } from '../../errors.ts';
import { bytesOf, type Tensor } from '../../native/buffer.ts';
import { allocateShared, Communicator, communicatorId } from '../../native/communicator.ts';
import type { Device } from '../../native/device.ts';
import { allGather, allReduce, groupCollectives, joinCollectives, reduceScatter } from '../../ops/collectives.ts';
import { endLater } from '../../ranks/last-resort.ts';
import { machineName } from '../../ranks/machine-name.ts';
import type { Ranks } from '../../ranks/ranks.ts';

const testMilliseconds = 30_000;
/** How long a failed rank may take to let go of its GPU. Rank 0 may be writing a checkpoint; its launcher waits a little longer. */
const endMilliseconds = 2500;
const rootEndMilliseconds = 7000;
const rounds = 20;
const carrierNames = { copies: 'copies between GPUs', nccl: 'NCCL', loopback: 'loopback' };
const orderingNames = { flushed: ', flushed,', nvlink: ' over NVLink', '': '' };

/**
 * GB/s from which on NCCL sums gradients behind the backward pass unless told otherwise: two GPUs over NVLink make about 260,
 * over PCIe 5 less than 50.
 */
const fastRate = 80;

/**
 * @param overlap as asked for
 * @returns what joins them, and what "auto" comes to, the same at every rank
 * @throws NativeError or Gpt2Error if the devices cannot reach each other, or do not add
 */
export async function connectDevices(
  ranks: Ranks,
  device: Device,
  overlap: 'auto' | 'on' | 'off',
  notice: (text: string) => void,
): Promise<{ communicator: Communicator; overlap: 'on' | 'off' }> {
  const machines = new Set(await ranks.allGather(machineName())).size;
  const id = await ranks.fromRoot(ranks.isRoot ? [...communicatorId(device, machines === 1)] : []);
  const isCuda = device.description.library === 'cuda';
  // Less long than a silent rank is waited for, so that the rank is named.
  const timeoutMilliseconds = Math.min(ranks.place.silenceSeconds * 750, 1e9);
  const { rank, count } = ranks;
  const communicator = new Communicator(device, { id: Uint8Array.from(id), rank, ranks: count, timeoutMilliseconds });
  ranks.failed.catch(({ message }: Error) => {
    if (isCuda) endLater('cuda', message, ranks.isRoot ? rootEndMilliseconds : endMilliseconds);
    communicator.abandon();
  });
  try {
    const { carrier, ordering, reason } = communicator.description;
    const rate = await ranks.fromRoot(await selfTest(communicator, isCuda ? 1 << 26 : 1 << 16));
    const settled = overlap === 'auto' ? (carrier === 'copies' || rate < fastRate ? 'on' : 'off') : overlap;
    const where = machines === 1 ? 'this machine' : `${machines} machines`;
    const why = reason === '' ? '' : ` (${reason})`;
    const way = `${carrierNames[carrier]}${orderingNames[ordering]}${why} at ${rate.toPrecision(3)} GB/s`;
    notice(`${count} ranks on ${where}; ${way}, --overlap ${settled}`);
    ranks.watch(() => communicator.check());
    return { communicator, overlap: settled };
  } catch (error) {
    communicator.abandon();
    throw error;
  }
}

/** @returns bytes that a rank gives away in large collectives, in GB/s */
async function selfTest(communicator: Communicator, bytes: number): Promise<number> {
  const { device, rank, ranks, parts } = communicator;
  const count = Math.floor(bytes / bytesOf('fp32') / ranks);
  const tensor = allocateShared(communicator, 'self-test', 'fp32', [2 * ranks * count + 2]);
  const [rows, whole] = [tensor.view([parts, count]), tensor.view([ranks * count], ranks * count)];
  const few = tensor.view([2], 2 * ranks * count);
  const advice = {
    copies: '; GPT2_PEER_COPIES=0 leaves them to NCCL',
    nccl: '; NCCL_DEBUG=INFO says more',
    loopback: '',
  }[communicator.description.carrier];
  const finished = async () => {
    joinCollectives(communicator);
    const late = setTimeout(testMilliseconds, 'late', { ref: false });
    if ((await Promise.race([device.finished(), late])) === 'late') {
      throw new Gpt2Error(`the ranks' first sum has not come within ${testMilliseconds / 1000} s${advice}`);
    }
  };
  const sum = (ranks * (ranks + 1)) / 2;
  const check = (tensor: Tensor, right: number) => {
    const wrong = (tensor.read() as Float32Array).find((value) => value !== right);
    if (wrong !== undefined) {
      throw new Gpt2Error(`the ranks' first sum is wrong: ${wrong} instead of ${right}${advice}`);
    }
  };
  // Every collective once, before any is recorded: NCCL opens some ways when they are first used.
  tensor.write(new Float32Array(tensor.count).fill(rank + 1));
  groupCollectives(communicator, () => {
    reduceScatter(communicator, { out: rows, start: 0, in: whole });
    allReduce(communicator, few);
  });
  await finished();
  check(few, sum);
  const own = rows.view([count], parts === 1 ? 0 : rank * count);
  allGather(communicator, { out: whole, in: own });
  await finished();
  // What each rank gave to this one, or their sum; the rank's own of it went to all.
  const given = (row: number) => (parts === 1 ? sum : row + 1);
  for (let row = 0; row < parts; row++) check(rows.view([count], row * count), given(row));
  for (let row = 0; row < ranks; row++) check(whole.view([count], row * count), given(row));
  const [begun, ended] = [device.createEvent(), device.createEvent()];
  for (let round = -1; round < rounds; round++) {
    // The first alone may open more ways, a large sum too.
    if (round < 0) allReduce(communicator, whole);
    if (round === 0) await finished();
    if (round === 0) device.record(begun);
    reduceScatter(communicator, { out: rows, start: 0, in: whole });
    allGather(communicator, { out: whole, in: own });
  }
  joinCollectives(communicator);
  device.record(ended);
  await finished();
  const seconds = device.elapsed(begun, ended) / 1000;
  communicator.unshare(tensor.buffer);
  tensor.buffer.close();
  return (rounds * whole.bytes * 2 * (ranks - 1)) / ranks / seconds / 1e9;
}
