// Checks every collective on known values, and measures the rate of large ones.
import { setTimeout } from 'node:timers/promises';
import { gpt2Error } from '../../base/errors.ts';
import { allocateShared, type Communicator } from '../../native/communicator.ts';
import { bytesOf } from '../../native/element-types.ts';
import type { Tensor } from '../../native/tensor.ts';
import { allGather, allReduce, groupCollectives, joinCollectives, reduceScatter } from '../../ops/collectives.ts';

const timeoutMilliseconds = 30_000;
const rounds = 20;

/**
 * Runs each collective once before any is recorded in a graph: NCCL opens some connections on first use.
 * @returns GB/s that a rank sends in large collectives
 * @throws Gpt2Error for a wrong value, or after a timeout
 */
export async function testCollectives(communicator: Communicator, bytes: number): Promise<number> {
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
  // The value that each rank sent to this rank, or the sum; all ranks received this rank's value.
  const wanted = (row: number) => (parts === 1 ? sum : row + 1);
  for (let row = 0; row < parts; row++) check(communicator, rows.view([count], row * count), wanted(row));
  for (let row = 0; row < ranks; row++) check(communicator, whole.view([count], row * count), wanted(row));

  const runRound = () => {
    reduceScatter(communicator, { out: rows, start: 0, in: whole });
    allGather(communicator, { out: whole, in: ofRank });
  };
  // Large collectives may open more connections on first use.
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
  const late = setTimeout(timeoutMilliseconds, 'late', { ref: false });
  if ((await Promise.race([communicator.device.finished(), late])) !== 'late') return;
  throw gpt2Error`the ranks' first sum took longer than ${timeoutMilliseconds / 1000} s${adviceFor(communicator)}`;
}

function check(communicator: Communicator, tensor: Tensor, wanted: number): void {
  const wrong = (tensor.read() as Float32Array).find((value) => value !== wanted);
  if (wrong === undefined) return;
  throw gpt2Error`the ranks' first sum is wrong: ${wrong} instead of ${wanted}${adviceFor(communicator)}`;
}

const advice = { copies: '; GPT2_PEER_COPIES=0 uses NCCL instead', nccl: '; NCCL_DEBUG=INFO shows more', loopback: '' };
const adviceFor = ({ description }: Communicator): string => advice[description.carrier];
