// Divides optimizer state and, in bf16, master weights between ranks (ZeRO-1, Rajbhandari et al. 2020). Each bucket (neighbouring
// matrices) is divided into one share per rank. Vectors, a thousandth of the parameters, are not divided. Initialization and
// checkpoints write and read divided parameters as if they were in one memory.
import { allocateShared, type Communicator } from '../native/communicator.ts';
import type { Device } from '../native/device.ts';
import { Tensor } from '../native/tensor.ts';
import { allGather, joinCollectives } from '../ops/collectives.ts';
import {
  type ArenaLayout,
  type ArenaPart,
  arenaLayout,
  type Bucket,
  bucketOf,
  checkCount,
  type Division,
  everyParameter,
  flatBytes,
  matricesIn,
  type ParameterArena,
  type ParameterCopy,
  type Selection,
  undivided,
} from './arena.ts';
import type { ModelConfig } from './config.ts';
import { type Parameter, type ParameterKind, parameterTable, realCount } from './parameters.ts';

/** The division of matrices between ranks, and memory for one bucket that is gathered from all ranks. */
export class Sharding {
  readonly communicator: Communicator;
  readonly division: Division;
  readonly layout: ArenaLayout;
  /** Number of elements of matrices that each rank holds. */
  readonly count: number;
  readonly #gathered: Tensor;

  /** @param whole the parameters that must not be split between ranks */
  constructor(communicator: Communicator, config: ModelConfig, whole?: Selection) {
    const { ranks } = communicator;
    this.communicator = communicator;
    this.division = { shares: ranks, whole };
    this.layout = arenaLayout(config, this.division);
    this.count = this.layout.sizes.matrix / ranks;
    const largest = Math.max(...this.layout.buckets.map(({ count }) => count));
    this.#gathered = allocateShared(communicator, 'gathering', 'fp32', [largest]);
  }

  /** This rank's share of a bucket, in elements: its size, its start in an arena of all shares, and its start among this rank's shares. */
  partOf(bucket: Bucket): { readonly count: number; readonly inArena: number; readonly inParts: number } {
    const { rank, ranks } = this.communicator;
    const count = bucket.count / ranks;
    // Buckets follow each other without gaps, and so do this rank's shares of them.
    return { count, inArena: bucket.start + rank * count, inParts: bucket.start / ranks };
  }

  /** Gathers a bucket from all ranks, [bucket.count]; the result is valid until the next call. All ranks must gather this bucket. */
  gather(parts: Tensor, bucket: Bucket): Tensor {
    const { count, inParts } = this.partOf(bucket);
    const gathered = this.#gathered.view([bucket.count]);
    allGather(this.communicator, { out: gathered, in: parts.view([count], inParts) });
    joinCollectives(this.communicator);
    return gathered;
  }

  /** Exchanges the shares of a bucket of `arena`, so that each rank has all shares. The caller must call `joinCollectives`. */
  allGatherInto(arena: Tensor, bucket: Bucket): void {
    const { count, inArena } = this.partOf(bucket);
    const [out, input] = [arena.view([bucket.count], bucket.start), arena.view([count], inArena)];
    allGather(this.communicator, { out, in: input });
  }
}

export class ShardedParameters implements ParameterCopy {
  readonly layout: ArenaLayout;
  readonly wholeLayout: ArenaLayout;
  /** This rank's shares of all buckets, in order. */
  readonly matrices: Tensor;
  readonly vectors: Tensor;
  readonly #sharding: Sharding;
  readonly #table: readonly Parameter[];

  constructor(device: Device, config: ModelConfig, name: string, sharding: Sharding, selected = everyParameter) {
    const { shares } = sharding.division;
    const flat = (kind: ParameterKind, count: number) =>
      new Tensor(device.allocate(flatBytes(count, 'fp32'), name), `${name}.${kind}`, 'fp32', [count]);
    this.layout = arenaLayout(config, sharding.division, selected);
    this.wholeLayout = arenaLayout(config, undivided, selected);
    this.matrices = flat('matrix', this.layout.sizes.matrix / shares);
    this.vectors = flat('vector', this.layout.sizes.vector);
    this.#sharding = sharding;
    this.#table = parameterTable(config);
  }

  get(name: string): never {
    throw new Error(`${name} of ${this.matrices.name} is divided between ranks`);
  }

  /** Writes the elements of a parameter that this rank holds. Padding rows stay zero from their allocation. */
  write(parameter: Parameter, values: Float32Array): void {
    checkCount(parameter, values);
    const { name, kind } = parameter;
    const start = this.layout.starts.get(name)!;
    if (kind === 'vector') {
      this.vectors.write(values, start);
      return;
    }
    const { count, inArena, inParts } = this.#sharding.partOf(this.#bucketOf(name));
    const from = Math.max(start, inArena);
    const to = Math.min(start + values.length, inArena + count);
    if (from < to) this.matrices.write(values.subarray(from - start, to - start), inParts + from - inArena);
  }

  read({ name }: Parameter): never {
    return this.get(name);
  }

  async readWhole(parameter: Parameter): Promise<Float32Array> {
    const { name, kind } = parameter;
    const start = this.layout.starts.get(name)!;
    const values = new Float32Array(realCount(parameter));
    if (kind === 'vector') return this.vectors.readInto(values, start);
    const bucket = this.#bucketOf(name);
    const gathered = this.#sharding.gather(this.matrices, bucket);
    // Waits before the copy to the host, because the copy blocks the event loop, and with it the detection of a rank that has ended.
    await this.#sharding.communicator.device.finished();
    this.#sharding.communicator.check();
    return gathered.readInto(values, start - bucket.start);
  }

  *parts(): Generator<ArenaPart> {
    for (const bucket of this.layout.buckets) {
      if (bucket.count === 0) continue;
      yield* matricesIn(this, this.#table, this.#sharding.gather(this.matrices, bucket), bucket.start);
    }
    if (this.vectors.count > 0) yield { kind: 'vector', start: 0, tensor: this.vectors };
  }

  /** Rounds this rank's master weights into the weights, and exchanges the rounded weights between ranks. */
  castInto(weights: ParameterArena): void {
    const { communicator } = this.#sharding;
    const { device } = communicator;
    const cast = (weight: Tensor, master: Tensor) =>
      device.call('castWeights', { weight: weight.pointer, master: master.pointer, count: weight.count });
    for (const bucket of this.layout.buckets) {
      const { count, inArena, inParts } = this.#sharding.partOf(bucket);
      cast(weights.matrices.view([count], inArena), this.matrices.view([count], inParts));
      this.#sharding.allGatherInto(weights.matrices, bucket);
    }
    cast(weights.vectors, this.vectors);
    joinCollectives(communicator);
  }

  #bucketOf(name: string): Bucket {
    return this.layout.buckets[bucketOf(this.layout, name)]!;
  }
}
