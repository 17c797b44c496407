// Connects the devices of ranks before step 0, checks the results of collectives, and measures the GB/s of large collectives.
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { gpt2Error, orElse, words } from '../../base/errors.ts';
import { allocateShared, Communicator, communicatorId } from '../../native/communicator.ts';
import type { Device } from '../../native/device.ts';
import { bytesOf } from '../../native/element-types.ts';
import { endLater } from '../../native/last-resort.ts';
import type { Tensor } from '../../native/tensor.ts';
import { allGather, allReduce, groupCollectives, joinCollectives, reduceScatter } from '../../ops/collectives.ts';
import type { Ranks } from '../../ranks/ranks.ts';

/** Milliseconds after a rank's failure until this process ends. Rank 0, which may be saving, has more time; the launcher waits longer. */
const endMilliseconds = 2500;
const rootEndMilliseconds = 7000;
/** Timeout of each test of collectives, in milliseconds, and the number of rounds of large collectives that are timed. */
const [testMilliseconds, rounds] = [30_000, 20];
const carrierNames = { copies: 'copies between GPUs', nccl: 'NCCL', loopback: 'loopback' };
const orderingNames = { flushed: ', flushed,', nvlink: ' over NVLink', '': '' };

/**
 * Rate in GB/s. If NCCL reaches this rate, --overlap auto sums gradients after the backward pass instead of during it. Two GPUs reach
 * about 260 over NVLink, less than 50 over PCIe 5.
 */
const fastRate = 80;

/**
 * Connects this rank's device with the devices of all ranks.
 * @returns the communicator, and --overlap as on or off, equal on every rank
 * @throws NativeError or Gpt2Error if the devices cannot reach each other, or a sum is wrong
 */
export async function connectDevices(
  ranks: Ranks,
  device: Device,
  overlap: 'auto' | 'on' | 'off',
  notice: (text: string) => void,
): Promise<{ communicator: Communicator; overlap: 'on' | 'off' }> {
  const machines = new Set(await ranks.allGather(loopbackId())).size;
  const id = await ranks.fromRoot(ranks.isRoot ? [...communicatorId(device, machines === 1)] : []);
  const isCuda = device.description.library === 'cuda';
  // Collectives time out before a silent rank counts as failed, so that the error names the rank.
  const timeoutMilliseconds = Math.min(ranks.place.silenceSeconds * 750, 1e9);
  const { rank, count } = ranks;
  const communicator = new Communicator(device, { id: Uint8Array.from(id), rank, ranks: count, timeoutMilliseconds });
  ranks.failed.catch(({ message }: Error) => {
    if (isCuda) endLater('cuda', message, ranks.isRoot ? rootEndMilliseconds : endMilliseconds);
    communicator.abandon();
  });
  try {
    const { carrier, ordering, reason } = communicator.description;
    const rate = await ranks.fromRoot(await testCollectives(communicator, isCuda ? 1 << 26 : 1 << 16));
    const chosen = overlap === 'auto' ? (carrier === 'copies' || rate < fastRate ? 'on' : 'off') : overlap;
    const where = machines === 1 ? 'this machine' : `${machines} machines`;
    const why = reason === '' ? '' : ` (${reason})`;
    const way = `${carrierNames[carrier]}${orderingNames[ordering]}${why} at ${rate.toPrecision(3)} GB/s`;
    notice(words`${count} ranks on ${where}; ${way}, --overlap ${chosen}`);
    ranks.watch(() => communicator.check());
    return { communicator, overlap: chosen };
  } catch (error) {
    communicator.abandon();
    throw error;
  }
}

/**
 * Text that identifies this process's loopback network. On Linux the boot id and the network namespace, which are both equal
 * exactly for processes that share a loopback; elsewhere the host name.
 */
const loopbackId = (): string =>
  orElse(
    hostname(),
    () => `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/net')}`,
  );

/**
 * Runs each collective once before any is recorded in a graph, because NCCL opens some connections on first use.
 * @returns GB/s that a rank sends in large collectives
 * @throws Gpt2Error for a wrong value, or after a timeout
 */
async function testCollectives(communicator: Communicator, bytes: number): Promise<number> {
  const { device, rank, ranks, parts } = communicator;
  const count = Math.floor(bytes / bytesOf('fp32') / ranks);
  const tensor = allocateShared(communicator, 'self-test', 'fp32', [2 * ranks * count + 2]);
  const [rows, whole] = [tensor.view([parts, count]), tensor.view([ranks * count], ranks * count)];
  const few = tensor.view([2], 2 * ranks * count);
  const sum = (ranks * (ranks + 1)) / 2;
  tensor.write(new Float32Array(tensor.count).fill(rank + 1));
  groupCollectives(communicator, () => {
    reduceScatter(communicator, { out: rows, start: 0, in: whole });
    allReduce(communicator, few);
  });
  await finished(communicator);
  check(communicator, few, sum);
  const ofRank = rows.view([count], parts === 1 ? 0 : rank * count);
  allGather(communicator, { out: whole, in: ofRank });
  await finished(communicator);
  // If `rows` has one row, this row and all rows of `whole` hold the sum over ranks. Else row r of both holds rank r's value, r + 1.
  const wanted = (row: number) => (parts === 1 ? sum : row + 1);
  for (let row = 0; row < parts; row++) check(communicator, rows.view([count], row * count), wanted(row));
  for (let row = 0; row < ranks; row++) check(communicator, whole.view([count], row * count), wanted(row));

  const runRound = () => {
    reduceScatter(communicator, { out: rows, start: 0, in: whole });
    allGather(communicator, { out: whole, in: ofRank });
  };
  // Warm up before the timing: large collectives may open more connections on first use.
  allReduce(communicator, whole);
  runRound();
  await finished(communicator);
  const [begun, ended] = [device.createEvent(), device.createEvent()];
  device.record(begun);
  for (let round = 0; round < rounds; round++) runRound();
  joinCollectives(communicator);
  device.record(ended);
  await finished(communicator);
  const seconds = device.elapsed(begun, ended) / 1000;
  communicator.unshare(tensor.buffer);
  tensor.buffer.close();
  return (rounds * whole.bytes * 2 * (ranks - 1)) / ranks / seconds / 1e9;
}

async function finished(communicator: Communicator): Promise<void> {
  joinCollectives(communicator);
  const late = setTimeout(testMilliseconds, 'late', { ref: false });
  if ((await Promise.race([communicator.device.finished(), late])) !== 'late') return;
  throw gpt2Error`the ranks' first sum took longer than ${testMilliseconds / 1000} s${adviceFor(communicator)}`;
}

function check(communicator: Communicator, tensor: Tensor, wanted: number): void {
  const wrong = (tensor.read() as Float32Array).find((value) => value !== wanted);
  if (wrong === undefined) return;
  throw gpt2Error`the ranks' first sum is wrong: ${wrong} instead of ${wanted}${adviceFor(communicator)}`;
}

const advice = { copies: '; GPT2_PEER_COPIES=0 uses NCCL instead', nccl: '; NCCL_DEBUG=INFO shows more', loopback: '' };
const adviceFor = ({ description }: Communicator): string => advice[description.carrier];
