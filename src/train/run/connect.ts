// Connects the devices of ranks before step 0, checks their collectives, and measures the rate of large ones.
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { orElse, words } from '../../base/errors.ts';
import { Communicator, communicatorId } from '../../native/communicator.ts';
import type { Device } from '../../native/device.ts';
import { endLater } from '../../native/last-resort.ts';
import type { Ranks } from '../../ranks/ranks.ts';
import { testCollectives } from './test-collectives.ts';

/** Time for a failed rank to release its GPU. Rank 0 may be writing a checkpoint; the launcher waits a little longer. */
const endMilliseconds = 2500;
const rootEndMilliseconds = 7000;
const carrierNames = { copies: 'copies between GPUs', nccl: 'NCCL', loopback: 'loopback' };
const orderingNames = { flushed: ', flushed,', nvlink: ' over NVLink', '': '' };

/**
 * Rate in GB/s from which --overlap auto lets NCCL sum gradients after the backward pass: two GPUs reach about 260 over NVLink,
 * less than 50 over PCIe 5.
 */
const fastRate = 80;

/**
 * @returns the communicator, and the choice of --overlap auto, the same on every rank
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
  // Shorter than the wait for a silent rank, so that the error names the rank.
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
 * On Linux the boot of the machine and the network namespace: equal exactly for processes that share a loopback. Elsewhere the
 * host name.
 */
const loopbackId = (): string =>
  orElse(
    hostname(),
    () => `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/net')}`,
  );
