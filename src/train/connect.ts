// Joins the devices of ranks and tries the way between them before step 0: a sum that is known, and how fast large ones are.
import { setTimeout } from 'node:timers/promises';
import { Gpt2Error } from '../errors.ts';
import { allocateTensor } from '../native/buffer.ts';
import { Communicator, communicatorId } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { allGather, allReduce, groupCollectives, joinCollectives, reduceScatter } from '../ops/collectives.ts';
import { endLater } from '../ranks/last-resort.ts';
import type { Ranks } from '../ranks/ranks.ts';

/** NCCL opens connections and measures them first. */
const joinMilliseconds = 120_000;
const testMilliseconds = 30_000;
/** How long a failed rank may take to let go of its GPU. Rank 0 may be writing a checkpoint; its launcher waits a little longer. */
const endMilliseconds = 2500;
const rootEndMilliseconds = 7000;
const rounds = 20;

/**
 * GB/s of an all-reduce from which on gradients are summed behind the backward pass unless told otherwise: two GPUs over
 * NVLink make about 260, over PCIe 5 less than 50.
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
  const id = await ranks.fromRoot(ranks.isRoot ? [...communicatorId(device)] : []);
  const isCuda = device.description.library === 'cuda';
  // The CPU's collectives wait by themselves: less long than a silent rank is waited for, so that the rank is named.
  const timeoutMilliseconds = isCuda ? joinMilliseconds : ranks.place.silenceSeconds * 750;
  const { rank, count } = ranks;
  const communicator = new Communicator(device, { id: Uint8Array.from(id), rank, ranks: count, timeoutMilliseconds });
  ranks.failed.catch(({ message }: Error) => {
    if (isCuda) endLater('cuda', message, ranks.isRoot ? rootEndMilliseconds : endMilliseconds);
    communicator.abandon();
  });
  try {
    const rate = await ranks.fromRoot(await selfTest(communicator, isCuda ? 1 << 26 : 1 << 16));
    const hosts = new Set(ranks.hosts).size;
    const settled = overlap === 'auto' ? (rate < fastRate ? 'on' : 'off') : overlap;
    const where = hosts === 1 ? 'this machine' : `${hosts} machines`;
    notice(`${count} ranks on ${where}; all-reduce at ${rate.toPrecision(3)} GB/s, --overlap ${settled}`);
    ranks.watch(() => communicator.check());
    return { communicator, overlap: settled };
  } catch (error) {
    communicator.abandon();
    throw error;
  }
}

/** @returns bytes that a rank gives away in a large sum, in GB/s */
async function selfTest(communicator: Communicator, bytes: number): Promise<number> {
  const { device, rank, ranks } = communicator;
  const tensor = allocateTensor(device, 'self-test', 'fp32', [2 * ranks * Math.floor(bytes / 8 / ranks)]);
  const finished = async () => {
    joinCollectives(communicator);
    const late = setTimeout(testMilliseconds, 'late', { ref: false });
    if ((await Promise.race([device.finished(), late])) === 'late') {
      throw new Gpt2Error(
        `the ranks' first sum has not come within ${testMilliseconds / 1000} s; NCCL_DEBUG=INFO says more`,
      );
    }
  };
  // Every collective once, before any is recorded: NCCL opens some ways when they are first used.
  const part = tensor.view([tensor.count / 2 / ranks], 0);
  const whole = tensor.view([part.count * ranks], tensor.count / 2);
  tensor.write(new Float32Array(tensor.count).fill(rank + 1));
  allReduce(communicator, tensor.view([2]));
  reduceScatter(communicator, { out: part, input: whole });
  allGather(communicator, { out: whole, input: part });
  groupCollectives(communicator, () => {
    reduceScatter(communicator, { out: part, input: whole });
    allReduce(communicator, tensor.view([2], part.count));
  });
  await finished();
  const wanted = (ranks * (ranks + 1)) / 2;
  const wrong = (whole.read() as Float32Array).find((value) => value !== wanted);
  if (wrong !== undefined) throw new Gpt2Error(`the ranks' first sum is wrong: ${wrong} instead of ${wanted}`);
  const [begun, ended] = [device.createEvent(), device.createEvent()];
  for (let round = -1; round < rounds; round++) {
    // The first alone may open more ways.
    if (round === 0) await finished();
    if (round === 0) device.record(begun);
    allReduce(communicator, tensor);
  }
  joinCollectives(communicator);
  device.record(ended);
  await finished();
  const seconds = device.elapsed(begun, ended) / 1000;
  const sent = rounds * tensor.bytes;
  tensor.buffer.close();
  return (sent * 2 * (ranks - 1)) / ranks / seconds / 1e9;
}
