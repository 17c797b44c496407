// Copies of all parameters of which each rank holds a part (ZeRO-1, Rajbhandari et al. 2020): moments and, in bf16, master
// weights. Every bucket of matrices is cut into as many parts as there are ranks; vectors, a thousandth of the parameters,
// are whole everywhere. For initial weights and checkpoints a copy is filled and read as if it were whole.
import { bytesOf, Tensor } from '../native/buffer.ts';
import { allocateShared, type Communicator, sharedBytes } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { allGather, joinCollectives } from '../ops/collectives.ts';
import type { ModelConfig } from './config.ts';
import {
  type ArenaLayout,
  type ArenaPart,
  arenaLayout,
  type Bucket,
  bucketOf,
  checkCount,
  type Parameter,
  type ParameterArena,
  type ParameterCopy,
  type ParameterKind,
  realCount,
} from './parameters.ts';

/** How matrices are divided between ranks, and the memory in which a bucket is put together again. */
export class Sharing {
  readonly communicator: Communicator;
  readonly layout: ArenaLayout;
  /** Elements of all of a rank's parts. */
  readonly count: number;
  readonly #whole: Tensor;

  constructor(communicator: Communicator, config: ModelConfig) {
    const { ranks } = communicator;
    this.communicator = communicator;
    this.layout = arenaLayout(config, ranks);
    this.count = this.layout.sizes.matrix / ranks;
    this.#whole = allocateShared(communicator, 'gathering', 'fp32', [gatheringCount(config, ranks)]);
  }

  /** This rank's part of a bucket: of a whole arena, where `whole` starts at the bucket; of its parts, packed. */
  partOf(bucket: Bucket): { readonly count: number; readonly inWhole: number; readonly inParts: number } {
    const { rank, ranks } = this.communicator;
    const count = bucket.count / ranks;
    // Buckets follow each other without gaps, so that the parts do.
    return { count, inWhole: bucket.start + rank * count, inParts: bucket.start / ranks };
  }

  /** A bucket of every rank's parts, [bucket.count], until the next is gathered. All ranks gather the same. */
  gather(parts: Tensor, bucket: Bucket): Tensor {
    const { count, inParts } = this.partOf(bucket);
    const whole = this.#whole.view([bucket.count]);
    allGather(this.communicator, { out: whole, in: parts.view([count], inParts) });
    joinCollectives(this.communicator);
    return whole;
  }

  /** Makes every rank's part of a bucket of `whole` the same everywhere; `joinCollectives` comes later. */
  spread(whole: Tensor, bucket: Bucket): void {
    const { count, inWhole } = this.partOf(bucket);
    const [out, input] = [whole.view([bucket.count], bucket.start), whole.view([count], inWhole)];
    allGather(this.communicator, { out, in: input });
  }
}

const gatheringCount = (config: ModelConfig, ranks: number): number =>
  Math.max(...arenaLayout(config, ranks).buckets.map(({ count }) => count));

/** Of device memory for putting the largest bucket together. */
export const gatheringBytes = (config: ModelConfig, ranks: number): number =>
  sharedBytes(gatheringCount(config, ranks) * bytesOf('fp32'));

export class ParameterShards implements ParameterCopy {
  /** This rank's parts, bucket behind bucket. */
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly #sharing: Sharing;
  readonly #config: ModelConfig;

  constructor(device: Device, config: ModelConfig, name: string, sharing: Sharing) {
    const flat = (kind: ParameterKind, count: number) =>
      new Tensor(device.allocate(count * bytesOf('fp32'), name), `${name}.${kind}`, 'fp32', [count]);
    this.matrices = flat('matrix', sharing.count);
    this.vectors = flat('vector', sharing.layout.sizes.vector);
    this.#sharing = sharing;
    this.#config = config;
  }

  get(name: string): Tensor {
    throw this.#spread(name);
  }

  #spread(name: string): Error {
    return new Error(`${name} of ${this.matrices.name} is spread over ranks`);
  }

  /** Padding rows are zero as the memory was. */
  write(parameter: Parameter, values: Float32Array): void {
    checkCount(parameter, values);
    const { name, kind } = parameter;
    const start = this.#sharing.layout.starts.get(name)!;
    if (kind === 'vector') {
      this.vectors.write(values, start);
      return;
    }
    const { count, inWhole, inParts } = this.#sharing.partOf(this.#bucketOf(name));
    const from = Math.max(start, inWhole);
    const to = Math.min(start + values.length, inWhole + count);
    if (from < to) this.matrices.write(values.subarray(from - start, to - start), inParts + from - inWhole);
  }

  read({ name }: Parameter): Float32Array {
    throw this.#spread(name);
  }

  async readWhole(parameter: Parameter): Promise<Float32Array> {
    const { name, kind } = parameter;
    const start = this.#sharing.layout.starts.get(name)!;
    const values = new Float32Array(realCount(parameter));
    if (kind === 'vector') return this.vectors.readInto(values, start);
    const bucket = this.#bucketOf(name);
    const whole = this.#sharing.gather(this.matrices, bucket);
    // A copy to the host blocks the event loop, and with it the detection of a rank that is gone.
    await whole.device.finished();
    this.#sharing.communicator.check();
    return whole.readInto(values, start - bucket.start);
  }

  *parts(): Generator<ArenaPart> {
    const { buckets } = arenaLayout(this.#config);
    for (const [index, bucket] of this.#sharing.layout.buckets.entries()) {
      const tensor = this.#sharing.gather(this.matrices, bucket).view([bucket.used]);
      yield { kind: 'matrix', start: buckets[index]!.start, tensor };
    }
    yield { kind: 'vector', start: 0, tensor: this.vectors };
  }

  /** Rounds master weights into the weights of every rank. */
  castInto(weights: ParameterArena): void {
    const { communicator, layout } = this.#sharing;
    const { device } = communicator;
    const cast = (weight: Tensor, master: Tensor) =>
      device.call('castWeights', { weight: weight.pointer, master: master.pointer, count: weight.count });
    for (const bucket of layout.buckets) {
      const { count, inWhole, inParts } = this.#sharing.partOf(bucket);
      cast(weights.matrices.view([count], inWhole), this.matrices.view([count], inParts));
      this.#sharing.spread(weights.matrices, bucket);
    }
    cast(weights.vectors, this.vectors);
    joinCollectives(communicator);
  }

  #bucketOf(name: string): Bucket {
    return this.#sharing.layout.buckets[bucketOf(this.#config, name)]!;
  }
}
