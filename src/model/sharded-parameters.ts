// Divides copies of parameters between ranks (ZeRO-1, Rajbhandari et al. 2020): optimizer state and, in bf16, master weights.
// Each bucket of matrices has one part per rank; every rank holds all vectors, a thousandth of the parameters. Initial weights
// and checkpoints write and read a copy as if it were in one memory.
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

/** The division of matrices between ranks, and memory to gather a bucket from all ranks. */
export class Sharding {
  readonly communicator: Communicator;
  readonly division: Division;
  readonly layout: ArenaLayout;
  /** Elements of matrices that each rank holds. */
  readonly count: number;
  readonly #gathered: Tensor;

  /** @param whole as in `Division` */
  constructor(communicator: Communicator, config: ModelConfig, whole?: Selection) {
    const { ranks } = communicator;
    this.communicator = communicator;
    this.division = { shares: ranks, whole };
    this.layout = arenaLayout(config, this.division);
    this.count = this.layout.sizes.matrix / ranks;
    const largest = Math.max(...this.layout.buckets.map(({ count }) => count));
    this.#gathered = allocateShared(communicator, 'gathering', 'fp32', [largest]);
  }

  /** This rank's part of a bucket: its size, its start in an arena, and its start in a divided copy. */
  partOf(bucket: Bucket): { readonly count: number; readonly inArena: number; readonly inParts: number } {
    const { rank, ranks } = this.communicator;
    const count = bucket.count / ranks;
    // Buckets follow each other without gaps, and so do the parts.
    return { count, inArena: bucket.start + rank * count, inParts: bucket.start / ranks };
  }

  /** Gathers a bucket from all ranks, [bucket.count]; valid until the next call. All ranks call it with the same bucket. */
  gather(parts: Tensor, bucket: Bucket): Tensor {
    const { count, inParts } = this.partOf(bucket);
    const gathered = this.#gathered.view([bucket.count]);
    allGather(this.communicator, { out: gathered, in: parts.view([count], inParts) });
    joinCollectives(this.communicator);
    return gathered;
  }

  /** Sends this rank's part of a bucket of `arena` to all ranks and receives their parts. The caller calls `joinCollectives`. */
  allGatherInto(arena: Tensor, bucket: Bucket): void {
    const { count, inArena } = this.partOf(bucket);
    const [out, input] = [arena.view([bucket.count], bucket.start), arena.view([count], inArena)];
    allGather(this.communicator, { out, in: input });
  }
}

export class ShardedParameters implements ParameterCopy {
  readonly layout: ArenaLayout;
  readonly wholeLayout: ArenaLayout;
  /** This rank's parts, bucket after bucket. */
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

  get(name: string): Tensor {
    throw this.#divided(name);
  }

  #divided(name: string): Error {
    return new Error(`${name} of ${this.matrices.name} is divided between ranks`);
  }

  /** Padding rows stay zero, as they were allocated. */
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

  read({ name }: Parameter): Float32Array {
    throw this.#divided(name);
  }

  async readWhole(parameter: Parameter): Promise<Float32Array> {
    const { name, kind } = parameter;
    const start = this.layout.starts.get(name)!;
    const values = new Float32Array(realCount(parameter));
    if (kind === 'vector') return this.vectors.readInto(values, start);
    const bucket = this.#bucketOf(name);
    const gathered = this.#sharding.gather(this.matrices, bucket);
    // Wait before the copy to the host, which blocks the event loop and thus the detection of a rank that has ended.
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

  /** Rounds master weights into the weights of every rank. */
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
